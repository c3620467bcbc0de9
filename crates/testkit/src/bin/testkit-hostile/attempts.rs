//! The attempts.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Map, Value};

use crate::raw::{call, number, perl};

type Attempt = Result<String, String>;

const SOON: Duration = Duration::from_secs(3);

/// Tries everything. The arguments name the targets.
pub(crate) fn all(targets: &Value) -> Value {
    let text = |name: &str| targets[name].as_str().unwrap_or_default().to_owned();
    let (secret, writable) = (text("secret"), text("writable"));
    let victim = targets["victim"].as_u64().unwrap_or_default();
    let mut report = Map::new();
    let mut tried = |name: &str, result: Attempt| {
        let result = match result {
            Ok(done) => format!("done: {done}"),
            Err(error) => format!("refused: {error}"),
        };
        report.insert(name.to_owned(), result.into());
    };
    // Files.
    tried("read a secret file", read(&secret));
    tried("list the home directory", list(&text("home")));
    tried("write a start-up file", append(&text("startup")));
    tried("read our configuration", read(&text("config")));
    tried("write to the project", append(&text("project_file")));
    tried(
        "read through a symbolic link",
        through_link(&secret, &writable),
    );
    tried("hard-link a secret file", hard_link(&secret, &writable));
    tried("win a race of links", race(&secret, &writable));
    tried(
        "rename over a file outside",
        rename_out(&text("startup"), &writable),
    );
    tried("fill the disk", fill(&writable));
    // The network.
    tried("connect out", connect(&text("tcp")));
    tried("send a datagram", datagram(&text("udp")));
    tried("resolve a name", resolve(&text("name")));
    tried(
        "connect to an abstract socket",
        abstract_socket(&text("abstract")),
    );
    tried("connect to a socket file", socket_file(&text("socket")));
    tried("open a netlink socket", call(number(41, 198), "16, 3, 16"));
    tried("talk to the hypervisor", call(number(41, 198), "40, 1, 0"));
    // Processes.
    tried("signal another process", signal(victim));
    tried("trace another process", trace(victim));
    tried("open another's memory", open_memory(victim));
    tried(
        "read another's environment",
        read(&format!("/proc/{victim}/environ")),
    );
    tried("open the parent's memory", open_memory(parent()));
    tried("see other processes", see(victim));
    // The kernel.
    tried("mount", mount(&writable));
    tried(
        "create a user namespace",
        call(number(272, 97), "0x10000000"),
    );
    tried("enter the keyring", call(number(250, 219), "0, -3, 0"));
    tried("use io_uring", call(425, "1, $b"));
    tried("load a BPF program", bpf());
    tried("handle page faults", call(number(323, 282), "1"));
    tried("set a sysctl", set_sysctl());
    // Resources.
    tried("allocate memory", allocate());
    tried("open many files", open_many());
    tried("fork without end", fork_many());
    // What was inherited.
    tried("find a descriptor", descriptors());
    tried("find a variable", variable(&text("variable")));
    Value::Object(report)
}

#[allow(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn told<E: ToString>(error: E) -> String {
    error.to_string()
}

fn read(path: &str) -> Attempt {
    let mut byte = [0];
    let mut file = File::open(path).map_err(told)?;
    file.read_exact(&mut byte).map_err(told)?;
    Ok("read".to_owned())
}

fn list(path: &str) -> Attempt {
    let count = fs::read_dir(path).map_err(told)?.count();
    Ok(format!("{count} entries"))
}

fn append(path: &str) -> Attempt {
    let mut file = File::options().append(true).create(true).open(path);
    let written = file.as_mut().map_err(told)?.write_all(b"#\n");
    written.map_err(told)?;
    Ok("written".to_owned())
}

fn through_link(secret: &str, writable: &str) -> Attempt {
    let link = Path::new(writable).join("link");
    let _ = fs::remove_file(&link);
    symlink(secret, &link).map_err(told)?;
    let result = fs::read(&link).map_err(told);
    let _ = fs::remove_file(&link);
    result.map(|_| "read".to_owned())
}

fn hard_link(secret: &str, writable: &str) -> Attempt {
    let link = Path::new(writable).join("hard");
    fs::hard_link(secret, &link).map_err(told)?;
    let result = fs::read(&link).map_err(told);
    let _ = fs::remove_file(&link);
    result.map(|_| "read".to_owned())
}

/// Swaps a file and a link while another thread reads the path.
fn race(secret: &str, writable: &str) -> Attempt {
    let (path, own) = (
        Path::new(writable).join("raced"),
        Path::new(writable).join("own"),
    );
    let expected = "mine";
    fs::write(&own, expected).map_err(told)?;
    let (target, path_too) = (secret.to_owned(), path.clone());
    let thread = std::thread::spawn(move || {
        for turn in 0..400 {
            let to = if turn % 2 == 0 {
                target.as_str()
            } else {
                "own"
            };
            let next = path_too.with_extension("next");
            let _ = fs::remove_file(&next);
            if symlink(to, &next).is_ok() {
                let _ = fs::rename(&next, &path_too);
            }
        }
        // The last one leads to the secret, so that the attempt succeeds where nothing stops it.
        let _ = fs::remove_file(&path_too);
        let _ = symlink(&target, &path_too);
    });
    let mut stolen = false;
    while !thread.is_finished() {
        stolen |= fs::read_to_string(&path).is_ok_and(|text| text != expected);
    }
    stolen |= fs::read_to_string(&path).is_ok_and(|text| text != expected);
    let _ = (fs::remove_file(&path), fs::remove_file(&own));
    let won = stolen.then(|| "read".to_owned());
    won.ok_or_else(|| "never another file".to_owned())
}

fn rename_out(startup: &str, writable: &str) -> Attempt {
    let own = Path::new(writable).join("planted");
    fs::write(&own, "# planted\n").map_err(told)?;
    let result = fs::rename(&own, startup).map_err(told);
    let _ = fs::remove_file(&own);
    result.map(|()| "replaced".to_owned())
}

fn fill(writable: &str) -> Attempt {
    let path = Path::new(writable).join("filler");
    let file = File::create(&path).map_err(told)?;
    let result = rustix::fs::fallocate(
        &file,
        rustix::fs::FallocateFlags::empty(),
        0,
        600 * 1024 * 1024,
    );
    let _ = fs::remove_file(&path);
    result.map_err(told)?;
    Ok("600 MB".to_owned())
}

fn connect(address: &str) -> Attempt {
    let address = address.parse().map_err(told)?;
    TcpStream::connect_timeout(&address, SOON).map_err(told)?;
    Ok("connected".to_owned())
}

/// Succeeds if there is an answer.
fn datagram(address: &str) -> Attempt {
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(told)?;
    socket.set_read_timeout(Some(SOON)).map_err(told)?;
    socket.send_to(b"x", address).map_err(told)?;
    socket.recv(&mut [0; 8]).map_err(told)?;
    Ok("answered".to_owned())
}

/// Asks a name server of the test's for a name.
fn resolve(server: &str) -> Attempt {
    datagram(server)
}

fn abstract_socket(name: &str) -> Attempt {
    let address = SocketAddr::from_abstract_name(name).map_err(told)?;
    UnixStream::connect_addr(&address).map_err(told)?;
    Ok("connected".to_owned())
}

fn socket_file(path: &str) -> Attempt {
    UnixStream::connect(path).map_err(told)?;
    Ok("connected".to_owned())
}

fn parent() -> u64 {
    std::os::unix::process::parent_id().into()
}

fn signal(victim: u64) -> Attempt {
    perl(&format!("print kill(0, {victim}) ? 'ok' : \"$!\";"))
}

/// `PTRACE_SEIZE`, which does not stop the victim; the tracer's exit detaches it.
fn trace(victim: u64) -> Attempt {
    call(number(101, 117), &format!("0x4206, {victim}, 0, 0"))
}

fn open_memory(pid: u64) -> Attempt {
    let path = format!("/proc/{pid}/mem");
    let opened = File::options().read(true).write(true).open(path);
    opened.map_err(told)?;
    Ok("opened".to_owned())
}

fn see(victim: u64) -> Attempt {
    let found = Path::new(&format!("/proc/{victim}")).exists();
    let seen = found.then(|| "seen".to_owned());
    seen.ok_or_else(|| "not there".to_owned())
}

/// In namespaces of its own, where that is possible: nothing outside changes.
fn mount(writable: &str) -> Attempt {
    let dir = Path::new(writable).join("mount");
    let _ = fs::create_dir(&dir);
    let (unshare, mount) = (number(272, 97), number(165, 40));
    let result = perl(&format!(
        "syscall({unshare}, 0x10020000); \
         my ($t, $d, $o) = ('tmpfs', '{}', ''); \
         my $r = syscall({mount}, $t, $d, $t, 0, $o); \
         print $r == -1 ? \"$!\" : 'ok';",
        dir.display()
    ));
    let _ = fs::remove_dir(&dir);
    result
}

/// Creates a map of one number.
fn bpf() -> Attempt {
    let bpf = number(321, 280);
    perl(&format!(
        "my $b = pack('L4', 2, 4, 4, 1) . (\"\\0\" x 112); \
         my $r = syscall({bpf}, 0, $b, 72); print $r == -1 ? \"$!\" : 'ok';"
    ))
}

/// Writes back what is there.
fn set_sysctl() -> Attempt {
    let path = "/proc/sys/kernel/core_pattern";
    let old = fs::read(path).map_err(told)?;
    fs::write(path, old).map_err(told)?;
    Ok("written".to_owned())
}

fn allocate() -> Attempt {
    let mut memory: Vec<u8> = Vec::new();
    let reserved = memory.try_reserve_exact(1024 * 1024 * 1024);
    reserved.map_err(told)?;
    Ok("1 GB".to_owned())
}

fn open_many() -> Attempt {
    let mut files = Vec::new();
    for _ in 0..300 {
        files.push(File::open("/dev/null").map_err(told)?);
    }
    Ok(format!("{} files", files.len()))
}

/// Not endless: a hundred are more than the limit of the test.
fn fork_many() -> Attempt {
    let mut children: Vec<Child> = Vec::new();
    let mut failed = None;
    for _ in 0..100 {
        let mut sleep = Command::new("sleep");
        sleep.arg("60").stdout(Stdio::null()).stdin(Stdio::null());
        match sleep.spawn() {
            Ok(child) => children.push(child),
            Err(error) => {
                failed = Some(format!("{error} after {}", children.len()));
                break;
            }
        }
    }
    for child in &mut children {
        let _ = child.kill();
        let _ = child.wait();
    }
    failed.map_or_else(|| Ok(format!("{} processes", children.len())), Err)
}

/// Descriptors besides the first three, and the one that lists them.
fn descriptors() -> Attempt {
    let listed = fs::read_dir("/proc/self/fd").map_err(told)?.flatten();
    let found: Vec<String> = listed
        .filter_map(|entry| {
            let number: u32 = entry.file_name().to_str()?.parse().ok()?;
            let to = fs::read_link(entry.path()).ok()?;
            (number > 2 && !to.starts_with("/proc")).then(|| format!("{number}: {}", to.display()))
        })
        .collect();
    if found.is_empty() {
        return Err("none".to_owned());
    }
    Ok(found.join(", "))
}

fn variable(name: &str) -> Attempt {
    std::env::var(name).map_err(told)
}
