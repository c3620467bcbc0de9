//! Runs the command of a hook: the event on its stdin, its verdict on its stdout.

use std::path::Path;

use trunkline_config::{Hook, env_vars};
pub(super) use trunkline_transport::shell::Ended;
use trunkline_transport::shell::ShellCommand;

/// Runs the command of a hook with this input.
pub(super) async fn run(hook: &Hook, input: Vec<u8>, project_dir: Option<&Path>) -> Ended {
    let mut command = ShellCommand::new(&*hook.command, hook.timeout)
        .env_remove(env_vars::secrets())
        .in_dir(project_dir);
    if let Some(dir) = project_dir {
        command = command.env("CLAUDE_PROJECT_DIR", dir);
    }
    command.run(&input).await
}

#[cfg(all(test, unix))]
mod tests {
    use std::time::Duration;

    use trunkline_config::{HookEvent, HookMatcher};

    use super::*;

    async fn ended(command: &str, limit: Duration) -> Ended {
        let hook = Hook::new(
            HookEvent::PreToolUse,
            HookMatcher::default(),
            command,
            limit,
        );
        run(&hook, b"{\"a\":1}".to_vec(), None).await
    }

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_hook_reads_stdin_and_prints() {
        let Ended::Exited {
            code,
            stdout,
            stderr,
        } = ended("cat; echo oh >&2; exit 3", LONG).await
        else {
            panic!("it ran");
        };
        assert_eq!(
            (code, stdout.as_deref(), &*stderr),
            (Some(3), Some(&b"{\"a\":1}"[..]), &b"oh\n"[..])
        );
    }

    /// Runs itself again with a secret in the environment, which a test cannot set for itself.
    #[tokio::test]
    async fn our_secrets_are_not_inherited() {
        const NAME: &str = "hooks::process::tests::our_secrets_are_not_inherited";
        let secret = env_vars::secrets().next().unwrap();
        if std::env::var_os(secret).is_none() {
            let again = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", NAME])
                .env(secret, "hidden")
                .env("NO_SECRET", "visible")
                .output()
                .unwrap();
            let printed = String::from_utf8_lossy(&again.stdout);
            assert!(again.status.success(), "{printed}");
            assert!(printed.contains("1 passed"), "{printed}");
            return;
        }
        let Ended::Exited { stdout, .. } = ended("env", LONG).await else {
            panic!("it ran");
        };
        let stdout = String::from_utf8(stdout.unwrap()).unwrap();
        assert!(!stdout.contains(&format!("{secret}=")), "{secret}");
        assert!(stdout.contains("NO_SECRET=visible"));
    }
}
