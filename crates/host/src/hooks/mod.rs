//! Hooks: the user's commands that run before and after calls and for elicitations (ELI-4).
//!
//! The settings name them (`config::hooks`), [`input`] is what they read, [`process`] runs one,
//! [`decision`] reads its verdict, and [`tool_use`] and [`elicitation`] are the events. A hook can
//! forbid a call and change its arguments, but never permit one: permission is asked for
//! afterwards, with the final arguments.

mod decision;
mod elicitation;
mod input;
mod process;
mod tool_use;

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::Value;
use trunkline_config::{Hook, HookEvent};

use decision::{HookOutput, Verdict};
use input::HookInput;
pub(crate) use tool_use::ToolUse;

/// The hooks of a host.
pub(crate) struct Hooks {
    /// Whether the hooks of the settings run.
    enabled: bool,
    list: ArcSwap<Vec<Hook>>,
    project_dir: Option<PathBuf>,
    /// Identifies this host to hooks.
    session: String,
}

/// What the hooks of one event said together.
#[derive(Debug, Default)]
struct Outcome {
    /// The output of each hook that succeeded, in order.
    outputs: Vec<HookOutput>,
    /// The reason of the first hook that blocks; later hooks have not run.
    blocked: Option<String>,
    /// Messages for the user.
    warnings: Vec<String>,
}

impl Hooks {
    pub(crate) fn new(enabled: bool, project_dir: Option<PathBuf>) -> Self {
        let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let started = started.map_or(0, |time| time.as_millis());
        Self {
            enabled,
            list: ArcSwap::default(),
            project_dir,
            session: format!("trunkline-{}-{started}", std::process::id()),
        }
    }

    /// Replaces the hooks of the settings.
    pub(crate) fn set(&self, hooks: &[Hook]) {
        if self.enabled && self.list.load().as_slice() != hooks {
            self.list.store(Arc::new(hooks.to_vec()));
        }
    }

    /// Returns whether any hook runs at an event.
    pub(crate) fn has(&self, event: HookEvent) -> bool {
        self.list.load().iter().any(|hook| hook.event == event)
    }

    /// Returns the hooks that run at an event for any of these names.
    fn matching(&self, event: HookEvent, names: &[&str]) -> Vec<Hook> {
        let hooks = self.list.load();
        let runs = |hook: &&Hook| {
            hook.event == event && names.iter().any(|name| hook.matcher.matches(name))
        };
        hooks.iter().filter(runs).cloned().collect()
    }

    /// Returns the members that the input of every hook has.
    fn common_input(&self, event: HookEvent) -> HookInput {
        let cwd = self.project_dir.clone();
        let cwd = cwd.or_else(|| std::env::current_dir().ok());
        let cwd = cwd.map(|dir| dir.to_string_lossy().into_owned());
        let mut input = HookInput::default();
        for (name, value) in [
            ("session_id", Value::from(&*self.session)),
            ("hook_event_name", event.name().into()),
            ("cwd", cwd.into()),
            ("permission_mode", "default".into()),
        ] {
            input.insert(name, value);
        }
        input
    }

    /// Runs hooks one after the other, until one blocks. `input` makes the input of the next hook
    /// from the outputs so far.
    async fn run_all(
        &self,
        hooks: &[Hook],
        mut input: impl FnMut(&[HookOutput]) -> HookInput,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        for hook in hooks {
            let text = input(&outcome.outputs).to_text();
            let ended = process::run(hook, text.into_bytes(), self.project_dir.as_deref()).await;
            let about = |problem: &str| {
                let event = hook.event.name();
                format!("a {event} hook of {} {problem}", hook.source)
            };
            match decision::read(hook.event, &ended) {
                Verdict::Output(output) => {
                    let message = output.message.as_deref();
                    outcome.warnings.extend(message.map(str::to_owned));
                    let blocked = output.block.clone();
                    outcome.outputs.push(*output);
                    if blocked.is_some() {
                        outcome.blocked = blocked;
                        return outcome;
                    }
                }
                Verdict::Blocked(reason) => {
                    outcome.blocked = Some(reason);
                    return outcome;
                }
                Verdict::Failed(problem) if hook.blocks_on_failure => {
                    outcome.blocked = Some(about(&problem));
                    return outcome;
                }
                Verdict::Failed(problem) => outcome.warnings.push(about(&problem)),
            }
        }
        outcome
    }
}
