//! The proxy that misbehaves.

use std::{
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use trunkline_testkit::{
    net::{Direction, Fault, FaultProxy, Rates, RawHttp},
    wait_until,
};

use crate::browser::{Browser, LIMIT, tcp};

/// An echo server.
fn echo() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let accepting = listener.try_clone().unwrap();
    thread::spawn(move || {
        for stream in accepting.incoming().flatten() {
            thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
        }
    });
    listener
}

fn through(fault: Fault) -> (FaultProxy, TcpStream) {
    let proxy = FaultProxy::to(echo().local_addr().unwrap());
    let mut client = tcp(proxy.address());
    assert_eq!(exchange(&mut client, "hello"), "hello");
    proxy.set(fault);
    (proxy, client)
}

fn exchange(client: &mut TcpStream, text: &str) -> String {
    client.write_all(text.as_bytes()).unwrap();
    take(client, text.len())
}

fn take(client: &mut TcpStream, count: usize) -> String {
    let mut bytes = vec![0; count];
    client.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn it_passes_everything_and_counts() {
    let (proxy, mut client) = through(Fault::Pass);
    let long = "x".repeat(1 << 20);
    let mut writer = client.try_clone().unwrap();
    let sent = long.clone();
    let sending = thread::spawn(move || writer.write_all(sent.as_bytes()));
    assert!(take(&mut client, long.len()) == long);
    sending.join().unwrap().unwrap();
    assert_eq!((proxy.connections(), proxy.open()), (1, 1));
    // A half-closed connection is passed on as one.
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    wait_until(LIMIT, || proxy.open() == 0);
}

#[test]
fn a_cut_is_an_end_and_a_reset_an_error_for_open_and_new_connections() {
    let (proxy, mut client) = through(Fault::Cut);
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    assert_eq!(tcp(proxy.address()).read(&mut [0]).unwrap(), 0);
    let (proxy, mut client) = through(Fault::Reset);
    assert_eq!(
        client.read(&mut [0]).unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
    assert_eq!(
        tcp(proxy.address()).read(&mut [0]).unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
    proxy.set(Fault::Pass);
    assert_eq!(exchange(&mut tcp(proxy.address()), "again"), "again");
    wait_until(LIMIT, || proxy.open() == 0);
}

#[test]
fn once_leaves_new_connections_alone() {
    let (proxy, mut client) = through(Fault::Pass);
    proxy.once(Fault::Cut);
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    assert_eq!(exchange(&mut tcp(proxy.address()), "fresh"), "fresh");
}

#[test]
fn an_answer_can_be_cut_or_reset_after_so_many_bytes() {
    let (_proxy, mut client) = through(Fault::CutAfter(3));
    client.write_all(b"hello").unwrap();
    let mut got = Vec::new();
    client.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"hel");
    let (_proxy, mut client) = through(Fault::ResetAfter(7));
    assert_eq!(exchange(&mut client, "hello"), "hello");
    client.write_all(b"hello").unwrap();
    let end = client.read_to_end(&mut Vec::new());
    assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_stall_holds_bytes_until_it_is_over() {
    for direction in [Direction::ToServer, Direction::ToClient, Direction::Both] {
        let (proxy, mut client) = through(Fault::Stall(direction));
        client.write_all(b"hello").unwrap();
        client
            .set_read_timeout(Some(Duration::from_millis(30)))
            .unwrap();
        let silence = client.read(&mut [0]).unwrap_err();
        assert_eq!(silence.kind(), ErrorKind::WouldBlock, "{direction:?}");
        client.set_read_timeout(Some(LIMIT)).unwrap();
        proxy.set(Fault::Pass);
        assert_eq!(take(&mut client, 5), "hello");
        // And one that never ends ends with the proxy.
        proxy.set(Fault::Stall(direction));
        drop(proxy);
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn slow_takes_its_time_and_duplicate_repeats() {
    let (_proxy, mut client) = through(Fault::Slow(10));
    let start = Instant::now();
    assert_eq!(exchange(&mut client, &"x".repeat(400)).len(), 400);
    assert!(start.elapsed() >= Duration::from_millis(35));
    let (_proxy, mut client) = through(Fault::Duplicate(Direction::ToClient));
    client.write_all(b"ab").unwrap();
    assert_eq!(take(&mut client, 4), "abab");
}

#[test]
fn refuse_closes_the_listener_only() {
    let (proxy, mut client) = through(Fault::Refuse);
    assert_eq!(exchange(&mut client, "alive"), "alive");
    let refused = TcpStream::connect(proxy.address()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    proxy.set(Fault::Pass);
    assert_eq!(exchange(&mut tcp(proxy.address()), "back"), "back");
}

#[test]
fn a_client_that_does_not_read_can_still_be_reset() {
    let server = RawHttp::start(|_, reply| {
        reply.respond(200, &[], vec![0; 32 << 20]);
    });
    let proxy = FaultProxy::to(server.address());
    let mut client = Browser::to(proxy.address());
    client.send("GET", "/", &[], b"");
    wait_until(LIMIT, || !server.requests().is_empty());
    proxy.once(Fault::Reset);
    wait_until(LIMIT, || {
        proxy.open() == 0 && server.open_connections() == 0
    });
}

#[test]
fn random_faults_depend_on_the_seed_alone() {
    let outcomes = |seed| {
        let proxy = FaultProxy::to(echo().local_addr().unwrap());
        let rates = Rates {
            cut: 0.15,
            reset: 0.1,
            refuse: 0.1,
            ..Rates::default()
        };
        proxy.random(seed, rates);
        let one = |_| {
            let mut client = tcp(proxy.address());
            // One byte is one chunk each way.
            (0..4)
                .take_while(|_| {
                    client.write_all(b"x").is_ok()
                        && client.read(&mut [0]).is_ok_and(|count| count == 1)
                })
                .count()
        };
        (0..40).map(one).collect::<Vec<_>>()
    };
    let first = outcomes(7);
    assert_eq!(first, outcomes(7));
    assert_ne!(first, outcomes(8));
    assert!(first.contains(&4) && first.iter().any(|count| *count < 4));
}
