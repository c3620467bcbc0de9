//! The calls in flight on one connection, to tell which client a server's question belongs to
//! (AGT-2).
//!
//! A legacy server asks without naming the call. If all calls in flight are one client's, so is
//! the question. Otherwise the question is held, no further call is admitted, and the calls that
//! do not wait for an answer end: the client that is left has asked. From then on, the server gets
//! the calls of one client at a time, so that nothing has to be held again.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

tokio::task_local! {
    static CURRENT: Arc<Origin>;
}

/// The most warnings that are kept for a call.
const MAX_WARNINGS: usize = 20;

/// How long a question is held to find out whose it is.
const HOLD_LIMIT: Duration = Duration::from_secs(30);

/// How long a call waits for other clients' calls to a server that asks questions.
const ADMISSION_LIMIT: Duration = Duration::from_mins(5);

/// The client of a call; `None` for the program itself.
type ClientKey = Option<Arc<str>>;

/// The call or read that a server may ask questions about.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The tool's name in the pool; `None` for reads.
    pub(crate) tool: Option<String>,
    /// The client on whose behalf it is made.
    pub(crate) client: ClientKey,
    /// Whether it has ended.
    ended: watch::Sender<bool>,
    /// Problems with the answers to its elicitations.
    warnings: Mutex<Vec<String>>,
}

impl Origin {
    pub(crate) fn new(tool: Option<String>, client: ClientKey) -> Arc<Self> {
        Arc::new(Self {
            tool,
            client,
            ended: watch::Sender::new(false),
            warnings: Mutex::default(),
        })
    }

    fn warn(&self, warning: &str) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if warnings.len() < MAX_WARNINGS {
            warnings.push(warning.to_owned());
        }
    }

    /// Takes the problems with the answers to its elicitations.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The calls that a server's request may belong to, all of one client.
#[derive(Debug)]
pub(crate) struct Asking {
    /// One call if the server's request can belong to no other.
    calls: Vec<Arc<Origin>>,
    /// The client that the server belongs to, if it is not shared.
    owner: ClientKey,
    /// Whether the call's own task handles the request, and ends with the call.
    pub(crate) in_call: bool,
}

impl Asking {
    /// The call that the request belongs to, if it is known.
    pub(crate) fn origin(&self) -> Option<&Arc<Origin>> {
        match &self.calls[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The client that the request is for.
    pub(crate) fn client(&self) -> ClientKey {
        match self.calls.first() {
            Some(call) => call.client.clone(),
            None => self.owner.clone(),
        }
    }

    /// Adds a warning to the result of the call.
    pub(crate) fn warn(&self, warning: &str) {
        if let Some(origin) = self.origin() {
            origin.warn(warning);
        }
    }

    /// Waits until every call that the request may belong to has ended (ELI-5). A request of a
    /// server without calls belongs to none, and stays.
    pub(crate) async fn ended(&self) {
        if self.in_call || self.calls.is_empty() {
            return std::future::pending().await;
        }
        for call in &self.calls {
            // The sender is in the origin, which is held here.
            let _ = call.ended.subscribe().wait_for(|ended| *ended).await;
        }
    }
}

/// The reason that a server's question reaches nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAsker {
    /// Calls of several clients wait, and the server does not name the one it asks about.
    Several,
    /// The calls that it may have been about have ended.
    Ended,
}

impl NoAsker {
    /// The reason, for logs and warnings.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Several => {
                "the server asked a question while calls of several clients were waiting, and did \
                 not say which of them it was about: it was answered \"cancel\". The server now \
                 gets the calls of one client at a time"
            }
            Self::Ended => "the call that the server asked about has ended",
        }
    }
}

/// The clients whose calls are in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Callers {
    /// No call is in flight.
    None,
    /// All calls are this client's.
    One(ClientKey),
    /// Calls of several clients.
    Several,
}

#[derive(Debug, Default)]
struct State {
    calls: Vec<Arc<Origin>>,
    /// Calls that wait for admission, in order, by ticket.
    waiting: VecDeque<(u64, ClientKey)>,
    next_ticket: u64,
    /// Whether the server has asked a question of its own: it gets the calls of one client at a
    /// time.
    exclusive: bool,
    /// The questions that are held.
    held: usize,
}

impl State {
    fn callers(&self) -> Callers {
        let mut calls = self.calls.iter();
        match calls.next() {
            None => Callers::None,
            Some(first) if calls.all(|call| call.client == first.client) => {
                Callers::One(first.client.clone())
            }
            Some(_) => Callers::Several,
        }
    }

    /// Whether a call of `client` may start. `ticket` is its place among those that wait.
    fn admits(&self, client: &ClientKey, ticket: Option<u64>) -> bool {
        if self.held > 0 {
            return false;
        }
        if !self.exclusive {
            return true;
        }
        let before = |(other, _): &&(u64, ClientKey)| ticket.is_none_or(|own| *other < own);
        let mut earlier = self.waiting.iter().filter(before);
        let is_next = earlier.all(|(_, other)| other == client);
        let is_alone = match self.callers() {
            Callers::None => true,
            Callers::One(caller) => caller == *client,
            Callers::Several => false,
        };
        is_next && is_alone
    }
}

/// The calls in flight on one connection.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    state: Mutex<State>,
    /// Changes with `state`.
    version: watch::Sender<u64>,
    /// The client that the server belongs to, if it is not shared.
    owner: ClientKey,
}

impl InFlight {
    /// A register for a server that belongs to one client.
    pub(crate) fn owned_by(owner: ClientKey) -> Self {
        Self {
            owner,
            ..Self::default()
        }
    }

    /// Runs `work` as part of a call, once the calls of other clients allow it. `None` if they do
    /// not until the deadline.
    pub(crate) async fn track<T>(
        &self,
        origin: &Arc<Origin>,
        deadline: Instant,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let _entry = match self.enter(origin, None) {
            Some(entry) => entry,
            None => self.admission(origin, deadline).await?,
        };
        Some(CURRENT.scope(Arc::clone(origin), work).await)
    }

    /// Waits until a call may start.
    async fn admission(&self, origin: &Arc<Origin>, deadline: Instant) -> Option<Entry<'_>> {
        let ticket = {
            let mut state = self.lock();
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            state.waiting.push_back((ticket, origin.client.clone()));
            ticket
        };
        let _place = Place {
            register: self,
            ticket,
        };
        let mut version = self.version.subscribe();
        let admitted = async {
            loop {
                if let Some(entry) = self.enter(origin, Some(ticket)) {
                    return Some(entry);
                }
                version.changed().await.ok()?;
            }
        };
        let deadline = Instant::now()
            .checked_add(ADMISSION_LIMIT)
            .map_or(deadline, |limit| limit.min(deadline));
        timeout_at(deadline, admitted).await.ok().flatten()
    }

    /// The clients whose calls are in flight. A message of a server during one client's calls may
    /// be about them.
    pub(crate) fn callers(&self) -> Callers {
        match (self.lock().callers(), &self.owner) {
            (Callers::None, Some(owner)) => Callers::One(Some(Arc::clone(owner))),
            (callers, _) => callers,
        }
    }

    /// The client of the call that the current task makes, or that the server belongs to.
    pub(crate) fn current_client(&self) -> ClientKey {
        let current = CURRENT.try_with(|current| current.client.clone());
        current.ok().flatten().or_else(|| self.owner.clone())
    }

    /// Finds whose question a server asks: that of the call that the current task makes, otherwise
    /// of the only client with calls in flight. Holds the question while several have.
    pub(crate) async fn asking(&self) -> Result<Asking, NoAsker> {
        let asking = |calls, in_call| Asking {
            calls,
            owner: self.owner.clone(),
            in_call,
        };
        if let Ok(current) = CURRENT.try_with(Arc::clone) {
            return Ok(asking(vec![current], true));
        }
        let (mut version, _hold) = {
            let mut state = self.lock();
            if state.calls.iter().any(|call| call.client.is_some()) {
                state.exclusive = true;
            }
            if state.callers() != Callers::Several {
                return Ok(asking(state.calls.clone(), false));
            }
            state.held += 1;
            (self.version.subscribe(), Hold(self))
        };
        let decided = async {
            loop {
                {
                    let state = self.lock();
                    match state.callers() {
                        Callers::None => return Err(NoAsker::Ended),
                        Callers::One(_) => return Ok(asking(state.calls.clone(), false)),
                        Callers::Several => {}
                    }
                }
                if version.changed().await.is_err() {
                    return Err(NoAsker::Ended);
                }
            }
        };
        let decided = timeout(HOLD_LIMIT, decided).await;
        decided.unwrap_or_else(|_| {
            for call in &self.lock().calls {
                call.warn(NoAsker::Several.reason());
            }
            Err(NoAsker::Several)
        })
    }

    /// Starts a call, if it may start now.
    fn enter(&self, origin: &Arc<Origin>, ticket: Option<u64>) -> Option<Entry<'_>> {
        let mut state = self.lock();
        if !state.admits(&origin.client, ticket) {
            return None;
        }
        state.calls.push(Arc::clone(origin));
        Some(Entry {
            register: self,
            origin: Arc::clone(origin),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes those who wait for that.
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        if self.version.receiver_count() > 0 {
            self.version.send_modify(|version| *version += 1);
        }
    }
}

/// A call's place in the list, until it ends or is dropped.
struct Entry<'a> {
    register: &'a InFlight,
    origin: Arc<Origin>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let is_other = |other: &Arc<Origin>| !Arc::ptr_eq(other, &self.origin);
        self.register.change(|state| state.calls.retain(is_other));
        self.origin.ended.send_replace(true);
    }
}

/// A call's place among those that wait.
struct Place<'a> {
    register: &'a InFlight,
    ticket: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let is_other = |(ticket, _): &(u64, ClientKey)| *ticket != self.ticket;
        self.register.change(|state| state.waiting.retain(is_other));
    }
}

/// A held question.
struct Hold<'a>(&'a InFlight);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.held -= 1);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn named(tool: &str) -> Arc<Origin> {
        Origin::new(Some(tool.to_owned()), None)
    }

    fn of(client: &str) -> Arc<Origin> {
        Origin::new(Some("t".to_owned()), Some(client.into()))
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_hours(1)
    }

    /// The client that a question of the server is for, if that is known at once.
    fn asked(calls: &InFlight) -> Option<Result<Option<String>, NoAsker>> {
        let asking = calls.asking().now_or_never()?;
        Some(asking.map(|asking| asking.client().map(|client| client.to_string())))
    }

    #[tokio::test]
    async fn a_question_belongs_to_its_task_or_to_the_only_call() {
        let calls = InFlight::default();
        let tool = || {
            let asking = calls.asking().now_or_never().unwrap().unwrap();
            asking.origin().and_then(|origin| origin.tool.clone())
        };
        assert_eq!(tool(), None);
        let only = calls.enter(&named("a"), None);
        assert_eq!(tool().as_deref(), Some("a"));
        let inside = calls.track(&named("b"), later(), async { tool() }).await;
        assert_eq!(inside.unwrap().as_deref(), Some("b"));
        let second = calls.enter(&named("c"), None);
        assert_eq!(tool(), None, "either may be meant");
        drop(only);
        assert_eq!(tool().as_deref(), Some("c"));
        drop(second);
        assert_eq!(tool(), None);
    }

    #[tokio::test]
    async fn a_question_ends_with_the_last_call_that_it_may_belong_to() {
        let calls = InFlight::default();
        let asking = || calls.asking().now_or_never().unwrap().unwrap();
        assert!(asking().ended().now_or_never().is_none());
        let first = calls.enter(&named("a"), None);
        let second = calls.enter(&named("b"), None);
        let asking = asking();
        let _later = calls.enter(&named("c"), None);
        drop(second);
        assert!(asking.ended().now_or_never().is_none());
        drop(first);
        assert!(asking.ended().now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_during_calls_of_two_clients_waits_until_one_is_left() {
        let calls = InFlight::default();
        let first = calls.enter(&of("a"), None).unwrap();
        let second = calls.enter(&of("b"), None).unwrap();
        let mut asking = Box::pin(calls.asking());
        assert!((&mut asking).now_or_never().is_none());
        assert!(
            calls.enter(&of("a"), None).is_none(),
            "calls wait meanwhile"
        );
        drop(first);
        let asking = asking.await.unwrap();
        assert_eq!(asking.client().as_deref(), Some("b"));
        // From now on, only one client's calls are in flight at a time.
        assert!(calls.enter(&of("a"), None).is_none());
        let third = calls.enter(&of("b"), None).unwrap();
        assert_eq!(asked(&calls), Some(Ok(Some("b".to_owned()))));
        drop((second, third));
        assert!(calls.enter(&of("a"), None).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_stays_ambiguous_is_for_nobody_and_each_call_learns_why() {
        let calls = InFlight::default();
        let origins = [of("a"), of("b")];
        let entries = origins.each_ref().map(|origin| calls.enter(origin, None));
        let began = Instant::now();
        assert_eq!(calls.asking().await.unwrap_err(), NoAsker::Several);
        assert_eq!(began.elapsed(), HOLD_LIMIT);
        for origin in &origins {
            assert_eq!(origin.take_warnings(), [NoAsker::Several.reason()]);
        }
        drop(entries);
        assert_eq!(asked(&calls), Some(Ok(None)));
    }

    #[tokio::test(start_paused = true)]
    async fn clients_take_turns_at_a_server_that_asks() {
        let calls = InFlight::default();
        let first = calls.enter(&of("a"), None).unwrap();
        assert!(asked(&calls).is_some());
        let (b, again) = (of("b"), of("a"));
        let mut waiting = Box::pin(calls.track(&b, later(), async {}));
        assert!((&mut waiting).now_or_never().is_none());
        // A call of the first client does not overtake the one that waits.
        let mut behind = Box::pin(calls.track(&again, later(), async {}));
        assert!((&mut behind).now_or_never().is_none());
        drop(first);
        assert_eq!(waiting.await, Some(()));
        assert_eq!(behind.await, Some(()));
        assert!(calls.lock().waiting.is_empty() && calls.lock().calls.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_other_clients_ends_at_the_deadline_or_when_dropped() {
        let calls = InFlight::default();
        let _first = calls.enter(&of("a"), None).unwrap();
        assert!(asked(&calls).is_some());
        let began = Instant::now();
        let soon = began + Duration::from_secs(3);
        assert_eq!(calls.track(&of("b"), soon, async {}).await, None);
        assert_eq!(began.elapsed(), Duration::from_secs(3));
        assert_eq!(calls.track(&of("b"), later(), async {}).await, None);
        assert_eq!(began.elapsed(), Duration::from_secs(3) + ADMISSION_LIMIT);
        let dropped = of("b");
        let waiting = calls.track(&dropped, later(), async {});
        assert!(waiting.now_or_never().is_none());
        assert!(calls.lock().waiting.is_empty());
    }

    #[tokio::test]
    async fn a_question_of_a_private_server_is_for_its_client() {
        let calls = InFlight::owned_by(Some("a".into()));
        assert_eq!(asked(&calls), Some(Ok(Some("a".to_owned()))));
        assert_eq!(calls.callers(), Callers::One(Some("a".into())));
        assert_eq!(calls.current_client().as_deref(), Some("a"));
        assert_eq!(InFlight::default().callers(), Callers::None);
    }
}
