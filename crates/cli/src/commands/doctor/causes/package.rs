//! Package managers and containers that do not start a server.

use super::super::diagnosis::{Diagnosis, Repair, Subject};
use super::process::{ProcessEvidence, after};
use crate::standing::quoted;

/// `npx` waits for an answer on a terminal that nobody has.
pub(super) fn npx_prompt(subject: &Subject, process: &ProcessEvidence) -> Option<Diagnosis> {
    let asks =
        process.says("Need to install the following packages") || process.says("Ok to proceed?");
    let has_yes = process
        .argv
        .iter()
        .any(|word| matches!(*word, "-y" | "--yes"));
    if !asks || has_yes || process.program() != "npx" {
        return None;
    }
    let words: Vec<String> = process
        .argv
        .iter()
        .skip(1)
        .map(|word| quoted(word))
        .collect();
    let options = format!("-- {} -y {}", quoted(process.argv[0]), words.join(" "));
    Some(
        Diagnosis::new(
            "npx-prompt",
            "npx asks whether to install the package, and waits",
        )
        .fix(subject.edit(options.trim_end(), "add \"-y\" to the \"args\""))
        .repair(Repair::AddYes),
    )
}

/// Docker that does not run, and images that it does not have.
pub(super) fn docker(process: &ProcessEvidence) -> Option<Diagnosis> {
    if process.says("permission denied while trying to connect to the Docker daemon")
        || process.says("permission denied while trying to connect to the docker API")
    {
        let message = "this user may not use Docker";
        let fix = "sudo usermod -aG docker \"$USER\", then sign in again";
        return Some(Diagnosis::new("docker-permission", message).fix(fix));
    }
    let is_down = process.says("Cannot connect to the Docker daemon")
        || process.says("failed to connect to the docker API")
        || process.says("docker daemon is not running")
        || process.says("error during connect");
    if is_down {
        let fix = if cfg!(target_os = "macos") {
            "open -a Docker"
        } else {
            "sudo systemctl start docker"
        };
        return Some(Diagnosis::new("docker-not-running", "Docker is not running").fix(fix));
    }
    let missing = process.lines().find_map(|line| {
        let denied = after(line, "pull access denied for ");
        let unknown = || after(line, "manifest for ").filter(|_| line.contains("not found"));
        denied.or_else(unknown)
    })?;
    let image = missing.split([',', ' ']).next().unwrap_or_default();
    let message = format!("there is no image \"{image}\", or it needs a sign-in");
    Some(Diagnosis::new("image-not-found", message).fix(format!("docker pull {}", quoted(image))))
}

/// A package that the registry does not have.
pub(super) fn not_found(subject: &Subject, process: &ProcessEvidence) -> Option<Diagnosis> {
    let npm = process.says("code E404") || process.says("npm ERR! 404");
    let python = process.lines().find_map(|line| {
        let pip = after(line, "No matching distribution found for ");
        let uv = || {
            let (before, _) = line.split_once(" was not found in the package registry")?;
            before.rsplit([' ', '│']).next()
        };
        pip.or_else(uv)
    });
    if !npm && python.is_none() {
        return None;
    }
    let quoted_name = || {
        let line = process.lines().find(|line| line.contains("is not in th"))?;
        let inside = line.split('\'').nth(1)?;
        // The version follows the last `@`; a scope begins with one.
        match inside.rfind('@') {
            Some(at) if at > 0 => Some(&inside[..at]),
            _ => Some(inside),
        }
    };
    let of_argv = || {
        let mut words = process.argv.iter().skip(1);
        words.find(|word| !word.starts_with('-')).copied()
    };
    let package = python.or_else(quoted_name).or_else(of_argv)?.trim();
    let program = quoted(process.argv.first().copied().unwrap_or("npx"));
    let yes = if npm { " -y" } else { "" };
    let fix = subject.edit(
        &format!("-- {program}{yes} CORRECT-NAME"),
        "correct the package's name",
    );
    // The registry does not tell a stranger which packages of a scope exist.
    let private = if npm && package.starts_with('@') {
        ", or you may not read it"
    } else {
        ""
    };
    let message = format!("the registry has no package \"{package}\"{private}");
    Some(Diagnosis::new("package-not-found", message).fix(fix))
}

/// A version of a package that the registry does not have.
pub(super) fn version_not_found(subject: &Subject, process: &ProcessEvidence) -> Option<Diagnosis> {
    let wanted = process.lines().find_map(|line| {
        let npm = after(line, "No matching version found for ");
        npm.map(|wanted| wanted.split(' ').next().unwrap_or_default())
    })?;
    let wanted = wanted.trim_end_matches('.');
    // A scope begins with an `@` too.
    let (package, version) = wanted
        .rsplit_once('@')
        .filter(|(name, _)| !name.is_empty())?;
    let message = format!("the registry has no version {version} of \"{package}\"");
    let program = quoted(process.argv.first().copied().unwrap_or("npx"));
    let fix = subject.edit(
        &format!("-- {program} -y {}@CORRECT-VERSION", quoted(package)),
        "correct the package's version",
    );
    Some(Diagnosis::new("version-not-found", message).fix(fix))
}

/// A package manager that cannot reach its registry.
pub(super) fn registry_unreachable(
    subject: &Subject,
    process: &ProcessEvidence,
) -> Option<Diagnosis> {
    const NPM: [&str; 4] = [
        "code ENOTFOUND",
        "code EAI_AGAIN",
        "code ECONNREFUSED",
        "code ETIMEDOUT",
    ];
    let npm = NPM.iter().any(|code| process.says(code));
    let uv = process.says("Failed to fetch:") || process.says("error sending request for url");
    if !npm && !uv {
        return None;
    }
    let message = format!("{} cannot reach its package registry", process.program());
    let fix = format!(
        "check the network, and HTTPS_PROXY if there is a proxy; then `{}`",
        subject.command("doctor")
    );
    Some(Diagnosis::new("registry-unreachable", message).fix(fix))
}

/// A module that the server's code imports and that is not installed.
pub(super) fn missing_module(subject: &Subject, process: &ProcessEvidence) -> Option<Diagnosis> {
    let module = process.lines().find_map(|line| {
        after(line, "Cannot find module '")
            .or_else(|| after(line, "Cannot find package '"))
            .or_else(|| after(line, "ModuleNotFoundError: No module named '"))
    })?;
    let module = module.split('\'').next().unwrap_or_default();
    let message = if module.starts_with('/') {
        format!("the file {module} does not exist")
    } else {
        format!("the module \"{module}\" is not installed where the server runs")
    };
    let fix = if module.starts_with('/') {
        subject.edit("-- COMMAND ARGS", "correct the path in \"args\"")
    } else if process
        .stderr
        .iter()
        .any(|line| line.contains("ModuleNotFoundError"))
    {
        format!("pip install {}", quoted(module))
    } else {
        format!("npm install {}", quoted(module))
    };
    Some(Diagnosis::new("module-not-found", message).fix(fix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docker_and_its_images_are_recognised() {
        let argv = &["docker", "run", "-i", "acme/mcp"];
        for (stderr, cause) in [
            (
                "docker: Cannot connect to the Docker daemon at unix:///x. Is it running?",
                "docker-not-running",
            ),
            (
                "error during connect: this error may indicate",
                "docker-not-running",
            ),
            (
                "permission denied while trying to connect to the Docker daemon socket",
                "docker-permission",
            ),
            (
                "docker: pull access denied for acme/mcp, repository does not exist",
                "image-not-found",
            ),
        ] {
            let stderr: Vec<String> = stderr.lines().map(str::to_owned).collect();
            let process = ProcessEvidence {
                argv,
                stderr: &stderr,
                stdout: None,
                exited: true,
            };
            let found = docker(&process).unwrap();
            assert_eq!(found.cause, cause);
            assert!(found.fix.is_some());
        }
    }
}
