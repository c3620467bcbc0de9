//! A large result: how fast it reaches its file, beside `cat` from the same pipe; and a large image, made to fit.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bench_client::{Args, Report};
use image::{ImageFormat, Rgb, RgbImage};
use serde_json::{Value, json};
use trunkline::permission::AllowAll;
use trunkline::result::Results;
use trunkline::{CallOptions, Host, ServerEntry};

use crate::Failure;

/// The first argument of a process that is the server.
pub(crate) const SERVE: &str = "serve-large";

/// How often it is done: the fastest counts, because a disk has moods.
const TIMES: usize = 3;

const LINE: &str = "2026-11-16T10:00:00Z INFO request 12345 of somebody took 17 ms and gave back 3 items\n";

/// What the server gives back.
#[derive(Clone, Copy)]
enum What {
    Text,
    Image,
}

/// As one block of content.
fn block(what: What, size: usize) -> String {
    match what {
        What::Text => json!({"type": "text", "text": LINE.repeat(size / LINE.len())}),
        What::Image => json!({"type": "image", "mimeType": "image/png", "data": STANDARD.encode(photo())}),
    }
    .to_string()
}

/// Twelve megapixels with some noise in them, as a camera would take.
fn photo() -> Vec<u8> {
    let mut seed = 1_u32;
    let image = RgbImage::from_fn(4000, 3000, |x, y| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let noise = seed >> 28;
        let byte = |value: u32| u8::try_from(value).unwrap_or(u8::MAX);
        Rgb([byte(x / 20 + noise), byte(y / 15 + noise), byte(100 + noise)])
    });
    let mut png = io::Cursor::new(Vec::new());
    // Nothing here can fail but for want of memory.
    let _ = image.write_to(&mut png, ImageFormat::Png);
    png.into_inner()
}

/// Is the server: `text SIZE` or `image 0`, and `dump` before it to write only the result, once a byte has come.
pub(crate) fn serve(mut args: impl Iterator<Item = String>) -> Result<(), Failure> {
    let mut word = args.next().unwrap_or_default();
    let dump = word == "dump";
    if dump {
        word = args.next().unwrap_or_default();
    }
    let what = if word == "text" { What::Text } else { What::Image };
    let block = block(what, args.next().unwrap_or_default().parse()?);
    let mut out = io::stdout().lock();
    if dump {
        eprintln!("ready");
        let mut go = [0];
        io::stdin().read_exact(&mut go)?;
        return Ok(out.write_all(block.as_bytes())?);
    }
    for line in io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let Some(id) = message.get("id") else {
            continue;
        };
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "large", "version": "1"},
            }),
            Some("tools/list") => json!({"tools": [{"name": "get", "inputSchema": {"type": "object"}}]}),
            Some("tools/call") => {
                write!(out, r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":["#)?;
                out.write_all(block.as_bytes())?;
                out.write_all(b"]}}\n")?;
                out.flush()?;
                continue;
            }
            _ => {
                let error = json!({"code": -32601, "message": "unknown"});
                writeln!(out, "{}", json!({"jsonrpc": "2.0", "id": id, "error": error}))?;
                continue;
            }
        };
        writeln!(out, "{}", json!({"jsonrpc": "2.0", "id": id, "result": result}))?;
    }
    Ok(())
}

/// A text of `payload` bytes, to a file.
pub(crate) async fn save(args: &Args) -> Result<(), Failure> {
    through_host(What::Text, args.payload).await
}

/// An image that is too large for a model, made smaller.
pub(crate) async fn fit() -> Result<(), Failure> {
    through_host(What::Image, 0).await
}

async fn through_host(what: What, size: usize) -> Result<(), Failure> {
    let directory = directory("results")?;
    let this = std::env::current_exe()?.display().to_string();
    let word = if matches!(what, What::Text) { "text" } else { "image" };
    let entry = ServerEntry::stdio("large", this, [SERVE, word, &size.to_string()]);
    let host = Host::builder()
        .permit(AllowAll)
        .results(Results::at(&directory))
        .server(entry)
        .start();
    host.ready().await;
    let mut best = Best::default();
    for _ in 0..TIMES {
        let start = Instant::now();
        let output = host.call("mcp__large__get", json!({}), CallOptions::new()).await?;
        best.take(Report::since(start, 1));
        match what {
            What::Text => {
                let written: u64 = output.files.iter().map(|file| file.size).sum();
                if written != (size / LINE.len() * LINE.len()) as u64 {
                    return Err(format!("{written} bytes were written").into());
                }
            }
            What::Image if output.content.iter().any(|content| content.kind() == "image") => {}
            What::Image => return Err("the image was lost".into()),
        }
        for file in output.files {
            fs::remove_file(file.path)?;
        }
    }
    host.shutdown().await;
    fs::remove_dir_all(directory)?;
    best.print()
}

/// The same text from the same pipe to a file, by `cat`.
pub(crate) fn cat(args: &Args) -> Result<(), Failure> {
    let directory = directory("cat")?;
    let mut best = Best::default();
    for _ in 0..TIMES {
        let path = directory.join("text");
        let mut server = Command::new(std::env::current_exe()?)
            .args([SERVE, "dump", "text", &args.payload.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let pipe = server.stdout.take().ok_or("no output")?;
        let mut cat = Command::new("cat").stdin(pipe).stdout(File::create(&path)?).spawn()?;
        let mut ready = String::new();
        BufReader::new(server.stderr.take().ok_or("no errors")?).read_line(&mut ready)?;
        let start = Instant::now();
        server.stdin.take().ok_or("no input")?.write_all(b"!")?;
        cat.wait()?;
        best.take(Report::since(start, 1));
        server.wait()?;
        fs::remove_file(path)?;
    }
    fs::remove_dir_all(directory)?;
    best.print()
}

fn directory(name: &str) -> Result<std::path::PathBuf, Failure> {
    let directory = std::env::current_exe()?.with_file_name(format!("{name}-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    Ok(directory)
}

#[derive(Default)]
struct Best(Option<Report>);

impl Best {
    fn take(&mut self, report: Report) {
        if self.0.as_ref().is_none_or(|best| report.seconds < best.seconds) {
            self.0 = Some(report);
        }
    }

    fn print(self) -> Result<(), Failure> {
        self.0.ok_or("nothing was measured")?.print();
        Ok(())
    }
}
