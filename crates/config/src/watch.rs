//! Watches configuration files for changes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{
    Config, Event, EventKind, PollWatcher, RecommendedWatcher, RecursiveMode, Watcher as _,
};

/// The polling interval where the system reports no changes.
const POLL: Duration = Duration::from_secs(2);

/// Watches files until it is dropped.
pub struct Watcher {
    watched: WatchedFiles,
    dirs: BTreeSet<PathBuf>,
    _watching: Box<dyn Send + Sync>,
}

impl Watcher {
    /// Calls `changed` whenever one of the files may have changed, appeared or disappeared;
    /// spurious calls are possible. It must not block.
    pub fn new(
        files: &[PathBuf],
        changed: impl Fn() + Send + Clone + 'static,
    ) -> Result<Self, String> {
        let watched = WatchedFiles::new(files);
        let dirs = watched.dirs();
        let tell = {
            let watched = watched.clone();
            move |event: notify::Result<Event>| {
                if event.is_ok_and(|event| watched.concerns(&event)) {
                    changed();
                }
            }
        };
        let told = RecommendedWatcher::new(tell.clone(), Config::default())
            .and_then(|watcher| start(watcher, &dirs));
        // Watches are limited in number, and some file systems report nothing.
        let watching: Box<dyn Send + Sync> = if let Ok(watcher) = told {
            Box::new(watcher)
        } else {
            let polled = PollWatcher::new(tell, Config::default().with_poll_interval(POLL))
                .and_then(|watcher| start(watcher, &dirs));
            Box::new(polled.map_err(|error| error.to_string())?)
        };
        Ok(Self {
            watched,
            dirs,
            _watching: watching,
        })
    }

    /// Whether it watches everything needed for these files: not after a parent directory was
    /// created or removed.
    pub fn covers(&self, files: &[PathBuf]) -> bool {
        let wanted = WatchedFiles::new(files);
        wanted.0 == self.watched.0 && wanted.dirs() == self.dirs
    }
}

fn start<W: notify::Watcher>(mut watcher: W, dirs: &BTreeSet<PathBuf>) -> notify::Result<W> {
    for dir in dirs {
        match watcher.watch(dir, RecursiveMode::NonRecursive) {
            // An inaccessible directory cannot contain a readable file.
            Ok(()) => {}
            Err(error) if !matches!(error.kind, notify::ErrorKind::MaxFilesWatch) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(watcher)
}

/// The files and the targets of those that are links.
#[derive(Clone)]
struct WatchedFiles(BTreeSet<PathBuf>);

impl WatchedFiles {
    fn new(files: &[PathBuf]) -> Self {
        let targets = files.iter().filter_map(|file| file.canonicalize().ok());
        Self(files.iter().cloned().chain(targets).collect())
    }

    /// The directories to watch: that of each file, because files are replaced rather than written,
    /// or else the nearest existing parent.
    fn dirs(&self) -> BTreeSet<PathBuf> {
        let nearest = |file: &PathBuf| {
            let mut above = file.ancestors().skip(1);
            above.find(|dir| dir.is_dir()).map(Path::to_owned)
        };
        self.0.iter().filter_map(nearest).collect()
    }

    /// Whether an event concerns one of the files or a parent directory.
    fn concerns(&self, event: &Event) -> bool {
        let reading = match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
            EventKind::Access(_) => true,
            _ => false,
        };
        let about = |path: &PathBuf| self.0.iter().any(|file| file.starts_with(path));
        !reading && (event.need_rescan() || event.paths.iter().any(about))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Waits until a change is reported.
    fn told(news: &mpsc::Receiver<()>) {
        news.recv_timeout(Duration::from_secs(20))
            .expect("a change");
        while news.recv_timeout(Duration::from_millis(50)).is_ok() {}
    }

    #[test]
    fn a_file_is_noticed_when_it_appears_changes_is_replaced_and_goes() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("deep/er/f.json");
        let watch = |news: mpsc::Sender<()>| {
            Watcher::new(std::slice::from_ref(&file), move || _ = news.send(())).unwrap()
        };
        let (sender, news) = mpsc::channel();
        let watcher = watch(sender.clone());
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        told(&news);
        drop(watcher);
        let _watcher = watch(sender);
        std::fs::write(&file, "1").unwrap();
        told(&news);
        std::fs::read(&file).unwrap();
        std::fs::write(file.with_extension("tmp"), "2").unwrap();
        assert!(news.recv_timeout(Duration::from_millis(50)).is_err());
        std::fs::rename(file.with_extension("tmp"), &file).unwrap();
        told(&news);
        std::fs::remove_file(&file).unwrap();
        told(&news);
    }

    #[test]
    fn what_a_link_points_to_is_watched_as_well() {
        let scratch = tempfile::tempdir().unwrap();
        let (link, target) = (
            scratch.path().join("link"),
            scratch.path().join("dir/target"),
        );
        std::fs::create_dir(scratch.path().join("dir")).unwrap();
        std::fs::write(&target, "1").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let (sender, news) = mpsc::channel();
        let _watcher = Watcher::new(&[link], move || _ = sender.send(())).unwrap();
        std::fs::write(&target, "2").unwrap();
        told(&news);
    }
}
