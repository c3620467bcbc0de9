//! Pins each tool's definition at its first approved call (TOOL-11). A changed tool is reported,
//! with its differences, before it may be called again.

mod accept;
mod canonical;
mod change;
mod definition;
mod diff;
mod store;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use change::{PartChange, ToolChange};
pub(crate) use definition::Definition;
use store::{FileStamp, PinFile};

use crate::catalog::PoolTool;

/// What to do when a tool has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnChange {
    /// Call it and add a warning to the result.
    Warn,
    /// Ask for approval again.
    #[default]
    Ask,
    /// Refuse calls until [`Host::accept_change`](crate::Host::accept_change).
    Block,
}

impl OnChange {
    /// Parses `warn`, `ask` or `block`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "warn" => Some(Self::Warn),
            "ask" => Some(Self::Ask),
            "block" => Some(Self::Block),
            _ => None,
        }
    }
}

/// The storage of pins.
#[derive(Clone, Debug, Default)]
pub struct PinStore {
    dir: Option<PathBuf>,
}

impl PinStore {
    /// Stores pins in memory.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// Stores pins in files below `dir`, which need not exist.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: Some(dir.into()),
        }
    }
}

/// The pins of all servers.
pub(crate) struct Pins {
    pub(crate) on_change: OnChange,
    store: PinStore,
    /// Pins by server key.
    servers: Mutex<HashMap<String, ServerPins>>,
}

/// The pins of one server.
#[derive(Default)]
struct ServerPins {
    /// The file they were read from, which another process may replace.
    stamp: Option<FileStamp>,
    /// Pinned definitions by original name.
    tools: BTreeMap<String, Definition>,
    /// Definitions that are not in the file yet.
    unsaved: BTreeMap<String, Definition>,
}

impl ServerPins {
    /// Replaces the pins with the file's and adds unsaved ones.
    fn read(&mut self, (stamp, tools): (FileStamp, BTreeMap<String, Definition>)) {
        self.stamp = Some(stamp);
        self.tools = tools;
        for (name, definition) in &self.unsaved {
            insert(&mut self.tools, name, definition);
        }
    }
}

impl Pins {
    pub(crate) fn new(store: PinStore, on_change: OnChange) -> Self {
        Self {
            on_change,
            store,
            servers: Mutex::default(),
        }
    }

    /// Returns the differences since a tool was pinned; `None` if it is unchanged or not pinned.
    pub(crate) async fn compare(
        &self,
        key: &str,
        tool: &PoolTool,
        instructions: Option<&str>,
    ) -> Result<Option<Arc<ToolChange>>, String> {
        let now = Definition::of(tool, instructions);
        self.reload(key).await?;
        let known = self.lock();
        let pinned = known.get(key).and_then(|known| pin_for(&known.tools, tool));
        let changed = pinned.and_then(|pinned| pinned.changed(tool, &now));
        Ok(changed.map(Arc::new))
    }

    /// Pins the current definition.
    pub(crate) async fn pin(
        &self,
        key: &str,
        tool: &PoolTool,
        instructions: Option<&str>,
    ) -> Result<(), String> {
        let now = Definition::of(tool, instructions);
        let name = tool.tool.name.to_string();
        {
            let mut known = self.lock();
            let known = known.entry(key.to_owned()).or_default();
            if known.tools.get(&name) == Some(&now) && !known.unsaved.contains_key(&name) {
                return Ok(());
            }
            insert(&mut known.tools, &name, &now);
            insert(&mut known.unsaved, &name, &now);
        }
        let Some(file) = self.file(key) else {
            return Ok(());
        };
        let (called, written) = (name.clone(), now.clone());
        blocking(move || file.pin(&called, &written)).await?;
        if let Some(known) = self.lock().get_mut(key) {
            // It may have been pinned again meanwhile.
            if known.unsaved.get(&name) == Some(&now) {
                known.unsaved.remove(&name);
            }
        }
        Ok(())
    }

    /// Reads a server's pins, unless the file is unchanged.
    async fn reload(&self, key: &str) -> Result<(), String> {
        let Some(file) = self.file(key) else {
            return Ok(());
        };
        let stamp = self.lock().get(key).and_then(|known| known.stamp);
        if let Some(read) = blocking(move || file.changed_since(stamp)).await? {
            let mut known = self.lock();
            known.entry(key.to_owned()).or_default().read(read);
        }
        Ok(())
    }

    /// Returns which of a server's tools changed.
    pub(crate) async fn changed(
        &self,
        key: &str,
        tools: &[Arc<PoolTool>],
        instructions: Option<&str>,
    ) -> Result<Vec<ToolChange>, String> {
        self.reload(key).await?;
        let known = self.lock();
        let Some(known) = known.get(key) else {
            return Ok(Vec::new());
        };
        let changed = tools.iter().filter_map(|tool| {
            let before = pin_for(&known.tools, tool)?;
            let now = Definition::of(tool, instructions);
            before.changed(tool, &now)
        });
        Ok(changed.collect())
    }

    fn file(&self, key: &str) -> Option<PinFile> {
        let dir = self.store.dir.as_ref()?;
        // A home of /dev/null means that nothing is to be stored.
        let nowhere = dir.starts_with("/dev/null");
        (!nowhere).then(|| PinFile::of(dir, key))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, ServerPins>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the pin file of a server.
pub(crate) fn pin_file(dir: &Path, key: &str) -> PathBuf {
    PinFile::of(dir, key).path().to_owned()
}

/// Returns the pin that a tool must match: its own, or that of the tool whose name it took over.
fn pin_for<'p>(
    pinned: &'p BTreeMap<String, Definition>,
    tool: &PoolTool,
) -> Option<&'p Definition> {
    let own = pinned.get(&*tool.tool.name);
    if own.is_some_and(|own| own.called == tool.name) {
        return own;
    }
    let taken = pinned.values().find(|other| other.called == tool.name);
    taken.or(own)
}

/// Inserts a pin and clears its pool name from other pins.
pub(super) fn insert(
    pinned: &mut BTreeMap<String, Definition>,
    name: &str,
    definition: &Definition,
) {
    for other in pinned.values_mut() {
        if other.called == definition.called {
            other.called.clear();
        }
    }
    pinned.insert(name.to_owned(), definition.clone());
}

/// Runs file operations on the blocking pool.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::testing::{tool, tool_of};

    fn described(description: &str) -> PoolTool {
        tool_of(
            "s",
            &serde_json::json!({"name": "t", "description": description}),
        )
    }

    #[tokio::test]
    async fn changed_tool_is_reported_until_pinned_again() {
        let scratch = tempfile::tempdir().unwrap();
        let store = PinStore::at(scratch.path().join("pins"));
        let pins = Pins::new(store.clone(), OnChange::Ask);
        let (before, after) = (described("reads"), described("reads, and mails it"));
        assert!(pins.compare("s", &before, None).await.unwrap().is_none());
        pins.pin("s", &before, None).await.unwrap();
        assert!(pins.compare("s", &before, None).await.unwrap().is_none());

        // In another process.
        let pins = Pins::new(store, OnChange::Ask);
        let change = pins.compare("s", &after, None).await.unwrap().unwrap();
        assert_eq!(change.parts.len(), 1);
        assert!(change.diff().contains("+reads, and mails it"), "{change}");
        // Another server of the same name, or another tool, is not affected.
        assert!(pins.compare("x", &after, None).await.unwrap().is_none());
        let other = tool("s", "u");
        assert!(pins.compare("s", &other, None).await.unwrap().is_none());

        // Respelling the name does not make it another tool.
        let respelt =
            |name: &str| tool_of("s", &serde_json::json!({"name": name, "description": "x"}));
        pins.pin("y", &respelt("a_b"), None).await.unwrap();
        let change = pins
            .compare("y", &respelt("a.b"), None)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(change.parts[0].part, "name");
        let (changed, other) = (Arc::new(respelt("a b")), Arc::new(respelt("c")));
        let changed = pins.changed("y", &[changed, other], None).await.unwrap();
        assert_eq!(changed.len(), 1);
        pins.pin("y", &respelt("a.b"), None).await.unwrap();
        assert!(
            pins.compare("y", &respelt("a.b"), None)
                .await
                .unwrap()
                .is_none()
        );

        pins.pin("s", &after, None).await.unwrap();
        assert!(pins.compare("s", &after, None).await.unwrap().is_none());
        assert!(pins.compare("s", &before, None).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn unreadable_pins_are_an_error() {
        let scratch = tempfile::tempdir().unwrap();
        let pins = Pins::new(PinStore::at(scratch.path()), OnChange::Ask);
        pins.pin("s", &described("x"), None).await.unwrap();
        let file = PinFile::of(scratch.path(), "s");
        std::fs::write(file.path(), "{broken").unwrap();
        let pins = Pins::new(PinStore::at(scratch.path()), OnChange::Ask);
        let problem = pins.compare("s", &described("x"), None).await;
        assert!(problem.unwrap_err().contains("cannot read the pins"));
    }

    #[tokio::test]
    async fn concurrent_pins_are_all_stored() {
        let scratch = tempfile::tempdir().unwrap();
        let tools: Vec<_> = (0..40).map(|n| tool("s", &format!("t{n}"))).collect();
        let pinning = tools.iter().map(|tool| {
            let pins = Pins::new(PinStore::at(scratch.path()), OnChange::Ask);
            async move { pins.pin("s", tool, None).await }
        });
        for done in futures_util::future::join_all(pinning).await {
            done.unwrap();
        }
        let pinned = PinFile::of(scratch.path(), "s").changed_since(None);
        assert_eq!(pinned.unwrap().unwrap().1.len(), tools.len());
    }

    #[tokio::test]
    async fn changes_by_other_processes_take_effect_immediately() {
        let scratch = tempfile::tempdir().unwrap();
        let running = Pins::new(PinStore::at(scratch.path()), OnChange::Ask);
        let (before, after) = (described("reads"), described("reads, and mails it"));
        running.pin("s", &before, None).await.unwrap();
        assert!(running.compare("s", &after, None).await.unwrap().is_some());

        let other = Pins::new(PinStore::at(scratch.path()), OnChange::Ask);
        other.pin("s", &after, None).await.unwrap();
        assert!(running.compare("s", &after, None).await.unwrap().is_none());
        assert!(running.compare("s", &before, None).await.unwrap().is_some());

        let file = PinFile::of(scratch.path(), "s");
        std::fs::remove_file(file.path()).unwrap();
        assert!(running.compare("s", &before, None).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn unwritable_pins_hold_in_memory_and_report_an_error() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("file");
        std::fs::write(&file, "").unwrap();
        let pins = Pins::new(PinStore::at(file.join("pins")), OnChange::Ask);
        let said = pins.pin("s", &described("x"), None).await.unwrap_err();
        assert!(said.contains("cannot store the pin"), "{said}");
        let changed = pins.compare("s", &described("y"), None).await.unwrap();
        assert!(changed.is_some());
        // Without a home nothing is stored.
        let pins = Pins::new(PinStore::at("/dev/null/pins"), OnChange::Ask);
        pins.pin("s", &described("x"), None).await.unwrap();
    }
}
