//! The limit: what pipes, processes and the kernel cost by themselves.
//!
//! Sends lines of the size a JSON-RPC call has and reads them back with blocking I/O, nothing parsed.
//! A client cannot be faster than this without doing something different with the pipe, such as
//! coalescing writes (which `inflight` allows it to, and this program does too).
#![forbid(unsafe_code)]

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use bench_client::{Args, Report, Scenario};

/// The envelope of a legacy `tools/call`: what a call costs on the wire besides its text.
const CALL_HEAD: &str = r#"{"jsonrpc":"2.0","id":100000,"method":"tools/call","params":{"name":"echo","arguments":{"text":""#;
const CALL_TAIL: &str = r#""}}}"#;
/// The most an unprivileged process may ask for.
const PIPE_BYTES: usize = 1 << 20;
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"limit","version":"0"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::from_env()?;
    let report = match args.scenario {
        Scenario::Sequential => calls(&args, 1)?,
        Scenario::Inflight => calls(&args, args.inflight)?,
        Scenario::List => list(&args)?,
        Scenario::Connect => {
            let narrow = connect(&args, 3)?;
            let wide = connect(&args, args.servers)?;
            if narrow.seconds < wide.seconds {
                narrow
            } else {
                wide
            }
        }
        Scenario::Oneshot => {
            let start = Instant::now();
            let mut server = Server::spawn(&args)?;
            for line in [INITIALIZE, LIST] {
                server.send(&[line])?;
                server.receive()?;
            }
            server.close()?;
            Report::since(start, 1)
        }
        _ => return Err("only trunkline does this".into()),
    };
    report.print();
    Ok(())
}

/// Batches of `width` lines: written at once, read back one by one.
fn calls(args: &Args, width: usize) -> io::Result<Report> {
    let mut server = Server::spawn(args)?;
    let line = format!("{CALL_HEAD}{}{CALL_TAIL}\n", args.text());
    let batch = line.repeat(width).into_bytes();
    let rounds = args.n.div_ceil(width);
    let mut start = Instant::now();
    for round in 0..args.warm_up().div_ceil(width) + rounds {
        if round == args.warm_up().div_ceil(width) {
            start = Instant::now();
        }
        server.stdin.write_all(&batch)?;
        for _ in 0..width {
            let read = server.receive()?;
            if read != line.len() {
                return Err(io::Error::other(format!(
                    "sent {} bytes, got {read}",
                    line.len()
                )));
            }
        }
    }
    let report = Report::since(start, rounds * width);
    server.close()?;
    Ok(report)
}

/// A real handshake and list, from fixed bytes; the answers are read up to their newline and dropped.
fn list(args: &Args) -> io::Result<Report> {
    let start = Instant::now();
    let mut server = Server::spawn(args)?;
    server.send(&[INITIALIZE])?;
    server.receive()?;
    let connected = start.elapsed().as_secs_f64();
    server.send(&[INITIALIZED, LIST])?;
    server.receive()?;
    let report = Report::since(start, 1).connected_in(connected);
    server.close()?;
    Ok(report)
}

/// Two lines with each server, at most `window` of them between spawn and second answer.
fn connect(args: &Args, window: usize) -> io::Result<Report> {
    let start = Instant::now();
    let mut servers: Vec<Server> = Vec::with_capacity(args.servers);
    let mut done = 0;
    while done < args.servers {
        if servers.len() < args.servers && servers.len() - done < window {
            let mut server = Server::spawn(args)?;
            server.send(&[INITIALIZE])?;
            servers.push(server);
            continue;
        }
        servers[done].receive()?;
        servers[done].send(&[LIST])?;
        servers[done].receive()?;
        done += 1;
    }
    let report = Report::since(start, args.servers);
    for server in servers {
        server.end()?;
    }
    Ok(report)
}

struct Server {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    line: Vec<u8>,
}

impl Server {
    fn spawn(args: &Args) -> io::Result<Self> {
        let mut child = Command::new(&args.server.0)
            .args(&args.server.1)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("no pipes"));
        };
        if args.payload > 16 * 1024 {
            // Otherwise a large line takes several turns of writer and reader.
            rustix::pipe::fcntl_setpipe_size(&stdin, PIPE_BYTES)?;
            rustix::pipe::fcntl_setpipe_size(&stdout, PIPE_BYTES)?;
        }
        let stdout = BufReader::with_capacity(args.payload.clamp(64 << 10, 1 << 20), stdout);
        Ok(Self {
            child,
            stdin,
            stdout,
            line: Vec::new(),
        })
    }

    fn send(&mut self, lines: &[&str]) -> io::Result<()> {
        let mut bytes = lines.join("\n").into_bytes();
        bytes.push(b'\n');
        self.stdin.write_all(&bytes)
    }

    /// The length of the next line, newline included.
    fn receive(&mut self) -> io::Result<usize> {
        self.line.clear();
        match self.stdout.read_until(b'\n', &mut self.line)? {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            read => Ok(read),
        }
    }

    /// Ends the server, which need not mind the end of its stdin.
    fn end(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    fn close(mut self) -> io::Result<()> {
        drop(self.stdin);
        self.child.wait().map(drop)
    }
}
