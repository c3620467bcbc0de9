//! The check before every call: rules, pins, and the embedder's [`Permit`].

use std::collections::HashMap;
use std::iter::successors;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use arc_swap::ArcSwap;
use trunkline_config::{PermissionRule, Permissions};
use trunkline_wire::Json;
use trunkline_wire::client::Arguments;
use trunkline_wire::mcp::ServerIdentity;

use super::policy::{PolicyTool, Restriction};
use super::{AskReason, AskedTool, PermissionAnswer, PermissionQuestion, Permit, Rules, Verdict};
use crate::call::{CallError, Cause};
use crate::catalog::PoolTool;
use crate::host::Host;
use crate::pins::{OnChange, Pins};

/// The permission check of one host or agent.
pub(crate) struct Guard {
    /// The rules of the embedding program, and those of the settings.
    given: Mutex<(Rules, Permissions)>,
    /// Both together.
    rules: ArcSwap<Rules>,
    permit: Option<Arc<dyn Permit>>,
    pins: Arc<Pins>,
    /// A `deny` rule of the host applies to its agents.
    parent: Option<Arc<Guard>>,
    /// The tools that are permitted permanently, by their names in the pool.
    cleared: RwLock<HashMap<String, ClearedTool>>,
}

/// A tool that is permitted as long as it stays the same.
struct ClearedTool {
    tool: Arc<PoolTool>,
    /// The identity of its server at that time.
    identity: Option<Arc<ServerIdentity>>,
    /// The key of its server's pins: another server may have the same name.
    pin_key: String,
}

/// A call to check.
pub(crate) struct CallCheck<'w> {
    pub(crate) tool: &'w Arc<PoolTool>,
    /// The identity and instructions of its server.
    pub(crate) identity: Option<&'w Arc<ServerIdentity>>,
    /// The key of its server's pins.
    pub(crate) pinned_as: &'w str,
    pub(crate) arguments: &'w Arguments,
    /// The reason of a hook to ask, whatever the rules say.
    pub(crate) hook: Option<&'w str>,
    /// The restriction of the call policy that requires approval (SEC-7).
    pub(crate) policy: Option<&'w Restriction>,
    /// The host, which knows all servers.
    pub(crate) known: &'w Host,
}

impl CallCheck<'_> {
    fn instructions(&self) -> Option<&str> {
        self.identity?.instructions.as_deref()
    }
}

impl Guard {
    pub(crate) fn new(rules: Rules, permit: Option<Arc<dyn Permit>>, pins: Arc<Pins>) -> Self {
        Self {
            rules: ArcSwap::from_pointee(rules.clone()),
            given: Mutex::new((rules, Permissions::default())),
            permit,
            pins,
            parent: None,
            cleared: RwLock::default(),
        }
    }

    /// Creates the check of an agent, with its own rules and optionally its own [`Permit`].
    pub(crate) fn below(self: &Arc<Self>, rules: Rules, permit: Option<Arc<dyn Permit>>) -> Self {
        let permit = permit.or_else(|| self.permit.clone());
        Self {
            parent: Some(Arc::clone(self)),
            ..Self::new(rules, permit, Arc::clone(&self.pins))
        }
    }

    /// Replaces the rules of the settings.
    pub(crate) fn settings(&self, permissions: &Permissions) {
        self.update(|(_, known)| known.clone_from(permissions));
    }

    /// Replaces the rules of the embedding program.
    pub(crate) fn set_rules(&self, rules: Rules) {
        self.update(|(given, _)| *given = rules);
    }

    fn update(&self, change: impl FnOnce(&mut (Rules, Permissions))) {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut given);
        let rules = given.0.clone().and(&given.1);
        if **self.rules.load() == rules {
            return;
        }
        self.rules.store(Arc::new(rules));
        let mut cleared = self.cleared.write().unwrap_or_else(PoisonError::into_inner);
        cleared.clear();
    }

    /// True if the tool is permitted permanently and unchanged.
    pub(crate) fn is_cleared(
        &self,
        tool: &Arc<PoolTool>,
        identity: Option<&Arc<ServerIdentity>>,
    ) -> bool {
        let parent = self.parent.as_ref();
        let cleared = self.cleared.read().unwrap_or_else(PoisonError::into_inner);
        let same = |known: &ClearedTool| {
            let known_identity = known.identity.as_ref().map(Arc::as_ptr);
            Arc::ptr_eq(&known.tool, tool) && known_identity == identity.map(Arc::as_ptr)
        };
        cleared.get(&tool.name).is_some_and(same)
            // The rules of the parent may have changed.
            && parent.is_none_or(|parent| parent.denied(tool).is_none())
    }

    /// True if the tool was permitted permanently, in whatever version. Another tool may have taken
    /// its name.
    fn was_cleared(&self, check: &CallCheck) -> bool {
        let cleared = self.cleared.read().unwrap_or_else(PoisonError::into_inner);
        cleared.get(&check.tool.name).is_some_and(|known| {
            known.pin_key == check.pinned_as && known.tool.tool.name == check.tool.tool.name
        })
    }

    /// Checks a call; returns warnings for the caller.
    pub(crate) async fn check(&self, check: &CallCheck<'_>) -> Result<Vec<String>, CallError> {
        loop {
            let rules = self.rules.load_full();
            let (warnings, permanent) = self.decide(check, &rules).await?;
            let mut cleared = self.cleared.write().unwrap_or_else(PoisonError::into_inner);
            // The rules may have changed while the user was asked.
            if !Arc::ptr_eq(&rules, &self.rules.load()) {
                drop(cleared);
                continue;
            }
            let name = check.tool.name.clone();
            if permanent {
                let tool = ClearedTool {
                    tool: Arc::clone(check.tool),
                    identity: check.identity.cloned(),
                    pin_key: check.pinned_as.to_owned(),
                };
                cleared.insert(name, tool);
            } else {
                cleared.remove(&name);
            }
            drop(cleared);
            return match self.denied(check.tool) {
                Some(denied) => Err(denied),
                None => Ok(warnings),
            };
        }
    }

    /// Decides by these rules; returns warnings, and whether the permission is permanent.
    async fn decide(
        &self,
        check: &CallCheck<'_>,
        rules: &Rules,
    ) -> Result<(Vec<String>, bool), CallError> {
        let tool = check.tool;
        if let Some(denied) = self.denied(tool) {
            return Err(denied);
        }
        let change = self
            .pins
            .compare(check.pinned_as, tool, check.instructions())
            .await
            .map_err(|reason| CallError::pins_unreadable(tool, reason))?;
        let mut warnings = Vec::new();
        let asked = match rules.about(tool, check.known) {
            // Permanent until the tool changes, which its pin tells.
            Verdict::Ask(_) | Verdict::Destructive(_) if self.was_cleared(check) => None,
            Verdict::Ask(None) => Some(AskReason::NoRule),
            Verdict::Ask(Some(rule)) => Some(AskReason::Rule(rule.text.clone())),
            Verdict::Destructive(rule) => Some(AskReason::Destructive(rule.text.clone())),
            Verdict::Allow(_) | Verdict::Deny(_) => None,
        };
        let hook = check.hook.map(|reason| AskReason::Hook(reason.to_owned()));
        let policy = check.policy.map(AskReason::of_policy);
        // The approval that policy requires includes the permission that a rule requires.
        let asked = if policy.is_some() { None } else { asked };
        // A question about a change replaces that of a rule, but not that of a hook or of policy,
        // which is about this call.
        let reasons = match (change, self.pins.on_change) {
            (None, _) => [None, policy, hook.or(asked)],
            (Some(change), OnChange::Block) => return Err(CallError::changed(&tool.name, change)),
            (Some(change), OnChange::Ask) => [Some(AskReason::Changed(change)), policy, hook],
            (Some(change), OnChange::Warn) => {
                warnings.push(format!("{change}\n{}", change.diff()));
                [None, policy, hook.or(asked)]
            }
        };
        let mut permanent = true;
        for reason in reasons.into_iter().flatten() {
            permanent &= self.ask(check, reason).await?;
        }
        self.pins
            .pin(check.pinned_as, tool, check.instructions())
            .await
            .unwrap_or_else(|reason| warnings.push(reason));
        Ok((warnings, permanent))
    }

    /// Checks a call of the tool that starts a sign-in (AUTH-8). It needs permission only if a rule
    /// or a hook asks for it, and has no pin.
    #[cfg(feature = "http")]
    pub(crate) async fn check_sign_in(
        &self,
        tool: &Arc<PoolTool>,
        arguments: &Arguments,
        (policy, hook): (Option<&Restriction>, Option<String>),
        known: &Host,
    ) -> Result<(), CallError> {
        if let Some(denied) = self.denied(tool) {
            return Err(denied);
        }
        let rules = self.rules.load_full();
        let asked = AskedTool::Server(Arc::clone(tool));
        let verdict = rules.about(tool, known);
        self.ask_own(asked, &arguments.to_json(), (policy, hook), &verdict)
            .await
    }

    /// Checks a call of a host tool.
    pub(crate) async fn check_own(
        &self,
        name: &str,
        arguments: &Json,
        required: (Option<&Restriction>, Option<String>),
    ) -> Result<(), CallError> {
        let denied = self.first_above(|rules| match rules.about_own(name) {
            Verdict::Deny(rule) => Some(CallError::denied(name, rule)),
            _ => None,
        });
        if let Some(denied) = denied {
            return Err(denied);
        }
        let rules = self.rules.load_full();
        let asked = AskedTool::Own(name.to_owned());
        let verdict = rules.about_own(name);
        self.ask_own(asked, arguments, required, &verdict).await
    }

    /// Asks about a tool of the host where policy, a hook or a rule requires it.
    async fn ask_own(
        &self,
        tool: AskedTool,
        arguments: &Json,
        (policy, hook): (Option<&Restriction>, Option<String>),
        verdict: &Verdict<'_>,
    ) -> Result<(), CallError> {
        let by_rule = match verdict {
            Verdict::Ask(Some(rule)) => Some(AskReason::Rule(rule.text.clone())),
            _ => None,
        };
        let reasons = match policy.map(AskReason::of_policy) {
            Some(policy) => [Some(policy), hook.map(AskReason::Hook)],
            None => [None, hook.map(AskReason::Hook).or(by_rule)],
        };
        for reason in reasons.into_iter().flatten() {
            let question = PermissionQuestion {
                tool: tool.clone(),
                arguments: arguments.clone(),
                reason,
            };
            self.answer(question).await?;
        }
        Ok(())
    }

    /// Passes the decision of the rules to `read`: a denial here or in a parent, otherwise that of
    /// the rules here.
    pub(super) fn verdict<T>(
        &self,
        tool: PolicyTool<'_>,
        known: &Host,
        read: impl Fn(Verdict<'_>) -> T,
    ) -> T {
        let about = |rules: &Rules| match tool {
            PolicyTool::Server(tool) => read(rules.about(tool, known)),
            // Nobody is asked about a sign-in unless a rule says so.
            PolicyTool::SignIn(tool) => read(match rules.about(tool, known) {
                Verdict::Ask(None) | Verdict::Destructive(_) => Verdict::Allow(None),
                verdict => verdict,
            }),
            PolicyTool::Own(name) => read(rules.about_own(name)),
        };
        let denied = |rules: &Rules| {
            let is_denied = match tool {
                PolicyTool::Server(tool) | PolicyTool::SignIn(tool) => rules.denial(tool).is_some(),
                PolicyTool::Own(name) => matches!(rules.about_own(name), Verdict::Deny(_)),
            };
            is_denied.then(|| about(rules))
        };
        self.first_above(denied)
            .unwrap_or_else(|| about(&self.rules.load()))
    }

    /// Returns the error for a server that is denied as a whole, here or in a parent.
    pub(crate) fn denies_server(&self, tool: &str, server: &str) -> Option<CallError> {
        let rule = self.denial_of_server(server)?;
        Some(CallError::denied(tool, &rule))
    }

    /// Returns the rule that denies a whole server, here or in a parent.
    pub(crate) fn denial_of_server(&self, server: &str) -> Option<PermissionRule> {
        self.first_above(|rules| rules.denial_of_server(server).cloned())
    }

    /// Checks access to a server's resources: it needs permission only if a rule matches the whole
    /// server.
    pub(crate) async fn check_server(
        &self,
        tool: &str,
        server: &str,
        arguments: &Json,
    ) -> Result<(), CallError> {
        if let Some(denied) = self.denies_server(tool, server) {
            return Err(denied);
        }
        let rule = self
            .rules
            .load()
            .question_about(server)
            .map(|rule| rule.text.clone());
        let Some(rule) = rule else {
            return Ok(());
        };
        let question = PermissionQuestion {
            tool: AskedTool::Own(tool.to_owned()),
            arguments: arguments.clone(),
            reason: AskReason::Rule(rule),
        };
        self.answer(question).await.map(drop)
    }

    /// Returns the error for a tool that is denied, here or in a parent.
    pub(super) fn denied(&self, tool: &PoolTool) -> Option<CallError> {
        self.first_above(|rules| {
            let rule = rules.denial(tool)?;
            Some(CallError::denied(&tool.name, rule))
        })
    }

    /// Searches the rules here and in the parents.
    pub(super) fn first_above<T>(&self, find: impl Fn(&Rules) -> Option<T>) -> Option<T> {
        let mut guards = successors(Some(self), |guard| guard.parent.as_deref());
        guards.find_map(|guard| find(&guard.rules.load()))
    }

    /// Asks for permission; returns whether it is permanent.
    async fn ask(&self, check: &CallCheck<'_>, reason: AskReason) -> Result<bool, CallError> {
        let question = PermissionQuestion {
            tool: AskedTool::Server(Arc::clone(check.tool)),
            arguments: check.arguments.to_json(),
            reason,
        };
        self.answer(question).await
    }

    async fn answer(&self, question: PermissionQuestion) -> Result<bool, CallError> {
        let tool = question.tool.name().to_owned();
        let change = match &question.reason {
            AskReason::Changed(change) => Some(Arc::clone(change)),
            _ => None,
        };
        let refused = |reason: Option<String>| match change {
            Some(change) => CallError::changed(&tool, change),
            None => CallError::from(Cause::NotPermitted {
                tool: tool.clone(),
                reason,
            }),
        };
        let Some(permit) = &self.permit else {
            return Err(refused(None));
        };
        match permit.permit(question).await {
            PermissionAnswer::Once => Ok(false),
            PermissionAnswer::Always => Ok(true),
            PermissionAnswer::No(reason) => Err(refused(Some(reason))),
        }
    }

    pub(crate) fn pins(&self) -> &Pins {
        &self.pins
    }
}
