//! A fault-injecting TCP proxy.

use std::{
    collections::HashMap,
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
    time::{Duration, Instant},
};

use super::{
    listener::Listener,
    stream::{Stream, arm_reset},
};

/// Poll intervals of blocked writes and stalls.
const PATIENCE: Duration = Duration::from_millis(20);
const TICK: Duration = Duration::from_millis(5);

/// A direction of bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direction {
    /// From client to server.
    ToServer,
    /// From server to client.
    ToClient,
    /// Both ways.
    Both,
}

impl Direction {
    fn covers(self, other: Self) -> bool {
        self == Self::Both || self == other
    }
}

/// A fault of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// No fault.
    Pass,
    /// FIN on both sides.
    Cut,
    /// RST on both sides.
    Reset,
    /// FIN on both sides after this many more bytes to the client.
    CutAfter(usize),
    /// RST on both sides after this many more bytes to the client.
    ResetAfter(usize),
    /// Bytes are held back while the connection stays open; the next fault releases them.
    Stall(Direction),
    /// At most this many bytes per millisecond each way.
    Slow(usize),
    /// Every chunk twice.
    Duplicate(Direction),
    /// The listener is closed; connections stay open.
    Refuse,
}

/// The probability of each fault per chunk of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// See [`Fault::Cut`].
    pub cut: f64,
    /// See [`Fault::Reset`].
    pub reset: f64,
    /// The chunk waits for `stall_for`, in its direction.
    pub stall: f64,
    /// How long a stall lasts.
    pub stall_for: Duration,
    /// The chunk goes at 20 bytes per millisecond.
    pub slow: f64,
    /// See [`Fault::Duplicate`].
    pub duplicate: f64,
    /// A new connection is reset; decided once per connection.
    pub refuse: f64,
}

impl Default for Rates {
    /// No faults; stalls last 50 ms.
    fn default() -> Self {
        Self {
            cut: 0.0,
            reset: 0.0,
            stall: 0.0,
            stall_for: Duration::from_millis(50),
            slow: 0.0,
            duplicate: 0.0,
            refuse: 0.0,
        }
    }
}

/// A TCP proxy on loopback. Closes every connection on drop.
#[derive(Debug)]
pub struct FaultProxy {
    listener: Listener,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    standing: Mutex<(Fault, Option<(u64, Rates)>)>,
    links: Mutex<HashMap<usize, Arc<Link>>>,
}

impl FaultProxy {
    /// Creates a proxy to this address, without faults.
    pub fn to(target: SocketAddr) -> Self {
        let shared = Arc::new(Shared {
            target,
            standing: Mutex::new((Fault::Pass, None)),
            links: Mutex::default(),
        });
        let own = Arc::clone(&shared);
        let listener = Listener::start(None, 0, move |stream, number| own.carry(&stream, number));
        Self { listener, shared }
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.address().port()
    }

    /// Replaces the port of a URL with that of this proxy.
    pub fn through(&self, url: &str) -> String {
        url.replacen(
            &format!(":{}", self.shared.target.port()),
            &format!(":{}", self.port()),
            1,
        )
    }

    /// Sets the fault of open and new connections, and ends `random`.
    pub fn set(&self, fault: Fault) {
        *self.shared.standing.lock().unwrap() = (fault, None);
        if fault == Fault::Refuse {
            return self.listener.refuse();
        }
        self.once(fault);
        self.listener.listen();
    }

    /// Sets the fault of the open connections.
    pub fn once(&self, fault: Fault) {
        let links: Vec<_> = self
            .shared
            .links
            .lock()
            .unwrap()
            .values()
            .cloned()
            .collect();
        for link in links {
            link.apply(fault);
        }
    }

    /// Injects random faults into new connections. They depend only on the seed, the number of the
    /// connection and the direction; chunk boundaries depend on the network.
    pub fn random(&self, seed: u64, rates: Rates) {
        *self.shared.standing.lock().unwrap() = (Fault::Pass, Some((seed, rates)));
        self.listener.listen();
    }

    /// The number of accepted connections.
    pub fn connections(&self) -> usize {
        self.listener.accepted()
    }

    /// The number of open connections.
    pub fn open(&self) -> usize {
        self.listener.open()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.listener.refuse();
        self.once(Fault::Cut);
    }
}

impl Shared {
    fn carry(&self, stream: &Stream, number: usize) {
        let (fault, random) = *self.standing.lock().unwrap();
        let rng = |salt: u64| {
            random.map(|(seed, rates)| (Rng::new(seed, number as u64 * 2 + salt), rates))
        };
        if random
            .is_some_and(|(seed, rates)| Rng::new(!seed, number as u64).next_f64() < rates.refuse)
            || fault == Fault::Reset
        {
            return stream.reset();
        }
        if fault == Fault::Cut {
            return stream.close();
        }
        let Ok(server) = TcpStream::connect(self.target) else {
            return stream.reset();
        };
        server.set_nodelay(true).ok();
        let link = Arc::new(Link {
            client: stream.tcp(),
            server: Arc::new(server),
            state: Mutex::new(State {
                fault,
                ended: false,
            }),
            changed: Condvar::new(),
        });
        self.links.lock().unwrap().insert(number, Arc::clone(&link));
        // A fault that was set while connecting is not in the table yet.
        let now = self.standing.lock().unwrap().0;
        if now != fault && now != Fault::Refuse {
            link.apply(now);
        }
        let upwards = {
            let (link, rng) = (Arc::clone(&link), rng(0));
            thread::spawn(move || link.pump(Direction::ToServer, rng))
        };
        link.pump(Direction::ToClient, rng(1));
        upwards.join().ok();
        self.links.lock().unwrap().remove(&number);
    }
}

#[derive(Debug)]
struct Link {
    client: Arc<TcpStream>,
    server: Arc<TcpStream>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    fault: Fault,
    ended: bool,
}

impl Link {
    fn apply(&self, fault: Fault) {
        match fault {
            Fault::Cut => self.end(|socket| {
                socket.shutdown(Shutdown::Both).ok();
            }),
            Fault::Reset => self.end(arm_reset),
            _ => self.state.lock().unwrap().fault = fault,
        }
        self.changed.notify_all();
    }

    fn end(&self, how: impl Fn(&TcpStream)) {
        let mut state = self.state.lock().unwrap();
        if !state.ended {
            state.ended = true;
            how(&self.client);
            how(&self.server);
        }
        self.changed.notify_all();
    }

    /// Forwards bytes in one direction until the end.
    fn pump(&self, direction: Direction, mut rng: Option<(Rng, Rates)>) {
        let (from, to) = match direction {
            Direction::ToServer => (&self.client, &self.server),
            _ => (&self.server, &self.client),
        };
        to.set_write_timeout(Some(PATIENCE)).ok();
        let mut buffer = vec![0; 64 << 10];
        loop {
            if self.stalled(direction).ended {
                return;
            }
            let count = match (&**from).read(&mut buffer) {
                Ok(count @ 1..) => count,
                Ok(0) => {
                    let ended = self.stalled(direction).ended;
                    if !ended {
                        to.shutdown(Shutdown::Write).ok();
                    }
                    return;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                // A reset is passed on as a reset.
                Err(_) => return self.end(arm_reset),
            };
            let chosen = rng
                .as_mut()
                .map_or(Fault::Pass, |(rng, rates)| rng.fault(rates));
            if !self.forward(to, direction, &buffer[..count], chosen, rng.as_ref()) {
                return;
            }
        }
    }

    /// Forwards a chunk with the current faults; false when the connection has ended.
    fn forward(
        &self,
        to: &TcpStream,
        direction: Direction,
        bytes: &[u8],
        chosen: Fault,
        rng: Option<&(Rng, Rates)>,
    ) -> bool {
        match chosen {
            Fault::Cut | Fault::Reset => {
                self.apply(chosen);
                return false;
            }
            Fault::Stall(_) => {
                self.pause(rng.map_or(TICK, |(_, rates)| rates.stall_for));
            }
            _ => {}
        }
        let state = self.stalled(direction);
        if state.ended {
            return false;
        }
        let standing = state.fault;
        drop(state);
        let fault = if chosen == Fault::Pass {
            standing
        } else {
            chosen
        };
        match fault {
            Fault::Slow(rate) => self.slowly(to, bytes, rate),
            Fault::Duplicate(which) if which.covers(direction) => {
                self.write(to, bytes) && self.write(to, bytes)
            }
            Fault::CutAfter(left) | Fault::ResetAfter(left) if direction == Direction::ToClient => {
                self.counted(to, bytes, left)
            }
            _ => self.write(to, bytes),
        }
    }

    fn counted(&self, to: &TcpStream, bytes: &[u8], left: usize) -> bool {
        let now = left.min(bytes.len());
        let written = self.write(to, &bytes[..now]);
        let mut state = self.state.lock().unwrap();
        let last = match &mut state.fault {
            Fault::CutAfter(count) => {
                *count = left - now;
                Fault::Cut
            }
            Fault::ResetAfter(count) => {
                *count = left - now;
                Fault::Reset
            }
            // Another fault was set meanwhile.
            _ => return written,
        };
        drop(state);
        if left > bytes.len() {
            return written;
        }
        self.apply(last);
        false
    }

    fn slowly(&self, to: &TcpStream, bytes: &[u8], rate: usize) -> bool {
        let piece = rate.max(1) * usize::try_from(TICK.as_millis()).unwrap_or(1);
        bytes.chunks(piece).all(|piece| {
            let written = self.write(to, piece);
            self.pause(TICK);
            written
        })
    }

    fn write(&self, mut to: &TcpStream, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            match to.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(e)
                    if matches!(
                        e.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) =>
                {
                    if self.state.lock().unwrap().ended {
                        return false;
                    }
                }
                Err(_) => {
                    self.end(arm_reset);
                    return false;
                }
            }
        }
        true
    }

    /// Waits while this direction is stalled.
    fn stalled(&self, direction: Direction) -> MutexGuard<'_, State> {
        let state = self.state.lock().unwrap();
        self.changed
            .wait_while(state, |state| {
                !state.ended
                    && matches!(state.fault, Fault::Stall(which) if which.covers(direction))
            })
            .unwrap()
    }

    /// Waits for a time or until the end.
    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut state = self.state.lock().unwrap();
        while !state.ended && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            state = self.changed.wait_timeout(state, left).unwrap().0;
        }
    }
}

/// A deterministic random number generator.
#[derive(Debug)]
struct Rng(u64);

impl Rng {
    fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Self(seed ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93));
        rng.next_f64();
        rng
    }

    /// Returns a number in 0..1 (splitmix64).
    #[expect(
        clippy::cast_precision_loss,
        reason = "53 bits fit the mantissa exactly"
    )]
    fn next_f64(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn fault(&mut self, rates: &Rates) -> Fault {
        let mut left = self.next_f64();
        let mut falls = |rate: f64| {
            let hit = left < rate;
            left -= rate;
            hit
        };
        if falls(rates.cut) {
            Fault::Cut
        } else if falls(rates.reset) {
            Fault::Reset
        } else if falls(rates.stall) {
            Fault::Stall(Direction::Both)
        } else if falls(rates.slow) {
            Fault::Slow(20)
        } else if falls(rates.duplicate) {
            Fault::Duplicate(Direction::Both)
        } else {
            Fault::Pass
        }
    }
}
