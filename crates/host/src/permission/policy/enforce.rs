//! Applies the policy to a host's calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use trunkline_config::{CallPolicy, PolicyDecision, ServerSet};
use trunkline_wire::client::Arguments;

use super::{CompiledPolicy, PolicyTool, Rates, Restriction, Surroundings};
use crate::call::CallError;
use crate::host::Host;

/// The policy of a host and its agents.
#[derive(Default)]
pub(crate) struct HostPolicy {
    /// Whether the configuration has been read.
    is_known: AtomicBool,
    compiled: ArcSwapOption<CompiledPolicy>,
    /// The configured servers that run, in this program or beside it.
    running: ArcSwap<Vec<String>>,
    rates: Rates,
}

impl HostPolicy {
    /// Replaces the policy by that of a configuration.
    pub(crate) fn set(&self, set: &ServerSet) {
        self.running.store(Arc::new(set.running.clone()));
        let before = self.compiled.load();
        let before = before.as_ref().map(|compiled| compiled.policy());
        if before != set.call_policy.as_ref() {
            let compiled = set.call_policy.clone().map(CompiledPolicy::new);
            self.compiled.store(compiled.map(Arc::new));
        }
        self.is_known.store(true, Ordering::Release);
    }
}

impl Host {
    /// Checks a call against the policy, and counts it unless it has been counted. Returns the
    /// restriction that requires approval.
    pub(crate) fn check_policy(
        &self,
        tool: PolicyTool<'_>,
        arguments: &Arguments,
        counted: &mut bool,
    ) -> Result<Option<Restriction>, CallError> {
        let policy = self.call_policy();
        if !policy.is_known.load(Ordering::Acquire)
            && let Some(set) = self.known_configuration()
        {
            policy.set(&set);
        }
        // Nothing else without a policy: this is on the way of every call.
        let Some(compiled) = &*policy.compiled.load() else {
            return Ok(None);
        };
        let recent = || {
            if *counted {
                return 0;
            }
            policy.rates.recent(&rate_key(tool))
        };
        let around = Surroundings {
            running: &|| self.running_servers(),
            recent_calls: &recent,
            known: self,
        };
        let found = compiled.restrictions(tool, Some(arguments), &around);
        let first = found.into_iter().next();
        if let Some(restriction) = first.as_ref()
            && restriction.decision == PolicyDecision::Deny
        {
            return Err(CallError::against_policy(tool.name(), restriction.clone()));
        }
        if !*counted && let Some(limit) = compiled.limit(tool) {
            // Another call may have taken the last place since.
            if !policy.rates.admit(&rate_key(tool), limit) {
                let full = || limit as usize;
                let around = Surroundings {
                    recent_calls: &full,
                    ..around
                };
                let found = compiled.restrictions(tool, Some(arguments), &around);
                if let Some(restriction) = found.into_iter().next() {
                    return Err(CallError::against_policy(tool.name(), restriction));
                }
            }
            *counted = true;
        }
        Ok(first)
    }

    /// Returns the restrictions that apply to a call; see [`CompiledPolicy::restrictions`].
    pub(super) fn restrictions(
        &self,
        tool: PolicyTool<'_>,
        arguments: Option<&Arguments>,
    ) -> Vec<Restriction> {
        let policy = self.call_policy();
        let Some(compiled) = &*policy.compiled.load() else {
            return Vec::new();
        };
        let around = Surroundings {
            running: &|| self.running_servers(),
            recent_calls: &|| policy.rates.recent(&rate_key(tool)),
            known: self,
        };
        compiled.restrictions(tool, arguments, &around)
    }

    /// Returns the error of a call that the policy denies, whatever the arguments if there are
    /// none.
    pub(in crate::permission) fn policy_denial(
        &self,
        tool: PolicyTool<'_>,
        arguments: Option<&Arguments>,
    ) -> Option<CallError> {
        let first = self.restrictions(tool, arguments).into_iter().next()?;
        (first.decision == PolicyDecision::Deny)
            .then(|| CallError::against_policy(tool.name(), first))
    }

    /// Returns the organisation's restrictions of calls, if there are any.
    pub fn policy(&self) -> Option<Arc<CallPolicy>> {
        let compiled = self.call_policy().compiled.load();
        compiled
            .as_ref()
            .map(|compiled| Arc::clone(compiled.policy()))
    }

    /// The servers that an open-world tool is beside: those of the configuration, whether this
    /// program uses them or not, those of the host, and those of the agent.
    fn running_servers(&self) -> Vec<String> {
        let mut running = Vec::clone(&self.call_policy().running.load());
        running.extend(self.enabled_servers());
        running
    }
}

/// The key under which the calls of a tool are counted.
fn rate_key(tool: PolicyTool<'_>) -> String {
    match tool {
        // Neither name can contain a NUL.
        PolicyTool::Server(tool) | PolicyTool::SignIn(tool) => {
            format!("{}\0{}", tool.server, tool.tool.name)
        }
        PolicyTool::Own(name) => name.to_owned(),
    }
}
