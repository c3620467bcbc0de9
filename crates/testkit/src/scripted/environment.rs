//! The environment of a server, which it may affect.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::Path,
    process,
    sync::Arc,
    thread,
    time::Duration,
};

use rustix::process::{Signal, getpid, kill_process};

/// The environment of a server.
pub(crate) enum Environment {
    /// A process, which it may kill.
    Process,
    /// A thread behind a socket, which it may close.
    Socket(UnixStream),
    /// Arbitrary streams, which it may drop.
    Streams,
    /// A network server in this process, which it may crash.
    Network(Arc<dyn Fn() + Send + Sync>),
}

impl Environment {
    /// Exits, or closes both directions.
    pub(super) fn end(&self, code: i32) {
        match self {
            Self::Process => process::exit(code),
            Self::Socket(stream) => stream.shutdown(Shutdown::Both).unwrap_or_default(),
            Self::Streams => {}
            Self::Network(crash) => crash(),
        }
    }

    /// Closes the direction to the client. The caller drops its writer.
    pub(super) fn close_output(&self) {
        match self {
            Self::Process => {
                let null = OpenOptions::new()
                    .write(true)
                    .open("/dev/null")
                    .expect("/dev/null");
                rustix::stdio::dup2_stdout(&null).expect("stdout to be replaced");
            }
            Self::Socket(stream) => stream.shutdown(Shutdown::Write).unwrap_or_default(),
            Self::Streams | Self::Network(_) => {}
        }
    }

    /// Sends a signal to this process; elsewhere ends the server.
    pub(super) fn signal(&self, signal: Signal) {
        if !matches!(self, Self::Process) {
            return self.end(1);
        }
        // The Rust runtime handles the first SIGSEGV and resets the handler.
        for _ in 0..3 {
            kill_process(getpid(), signal).expect("a signal to itself");
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(super) fn ignore(&self, signal: Signal) {
        if matches!(self, Self::Process) {
            ignore(signal);
        }
    }
}

/// Ignores a signal, with a handler that only sets a flag.
pub(super) fn ignore(signal: Signal) {
    signal_hook::flag::register(signal.as_raw(), std::sync::Arc::default())
        .expect("a signal that can be ignored");
}

/// Writes a file atomically.
pub(super) fn write_whole(path: &Path, text: &str) {
    let part = path.with_extension(format!("part{}", process::id()));
    fs::write(&part, text)
        .and_then(|()| fs::rename(&part, path))
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// Appends in one write.
pub(super) fn append(path: &Path, bytes: &[u8]) {
    let file = OpenOptions::new().append(true).create(true).open(path);
    file.and_then(|mut file| file.write_all(bytes))
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// Increments the number in a file, under a lock.
pub(super) fn count(path: &Path) {
    let add = || -> io::Result<()> {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        file.lock()?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let number: u64 = text.trim().parse().unwrap_or(0);
        file.rewind()?;
        // The number never gets shorter, so it overwrites the old one.
        write!(file, "{}", number + 1)
    };
    add().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// This process's stdin, unbuffered.
pub(super) struct Stdin;

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| {
            rustix::io::read(rustix::stdio::stdin(), &mut *buffer)
        })?)
    }
}

/// This process's stdout, unbuffered.
pub(super) struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| {
            rustix::io::write(rustix::stdio::stdout(), bytes)
        })?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
