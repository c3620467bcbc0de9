//! Servers and connections leave nothing behind in the process of a test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use trunkline_testkit::{
    Script,
    net::{FaultProxy, HttpProxy, HttpServer, Rates, SseServer, TestCa, TlsOptions, WsServer},
    wait_until,
};

const LIMIT: Duration = Duration::from_mins(1);

fn held() -> (usize, usize) {
    let count = |path| fs::read_dir(path).unwrap().count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

/// Opens a connection, says something and leaves, however that goes.
fn visit(address: SocketAddr, text: &str) {
    if let Ok(mut client) = TcpStream::connect(address) {
        client.write_all(text.as_bytes()).ok();
        client.read_exact(&mut [0]).ok();
    }
}

// One test, because others in the same process would be counted too.
#[test]
fn connections_leave_no_descriptor_and_no_thread() {
    let before = held();
    {
        let ca = TestCa::new();
        let http = HttpServer::start(Script::default());
        let secure = HttpServer::builder(Script::default())
            .tls(TlsOptions::new(&ca))
            .start();
        let sse = SseServer::start(Script::default());
        let ws = WsServer::start(Script::default());
        let faults = FaultProxy::to(sse.address());
        faults.random(
            5,
            Rates {
                cut: 0.1,
                reset: 0.2,
                stall: 0.1,
                stall_for: Duration::from_millis(5),
                refuse: 0.1,
                ..Rates::default()
            },
        );
        let forward = HttpProxy::start();
        let within = held();
        let upgrade = "GET /mcp HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nHost: x\r\n\
                       Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
        let stream = "GET /sse HTTP/1.1\r\nHost: x\r\n\r\n";
        let connect = format!("CONNECT {} HTTP/1.1\r\n\r\n", http.address());
        for _ in 0..100 {
            visit(http.address(), "GET /mcp HTTP/1.1\r\nAccept: */*\r\n\r\n");
            visit(secure.address(), "not TLS at all\r\n\r\n");
            visit(sse.address(), stream);
            visit(ws.address(), upgrade);
            visit(faults.address(), stream);
            visit(forward.address(), &connect);
        }
        // The last of them may still be on their way.
        wait_until(LIMIT, || {
            (http.connections(), ws.requests().len()) == (200, 100)
        });
        wait_until(LIMIT, || held() == within);
        let still = [
            http.open_connections(),
            secure.open_connections(),
            sse.open_connections(),
            ws.open_connections(),
            faults.open(),
            forward.open_connections(),
        ];
        assert_eq!(still, [0; 6]);
        assert_eq!((sse.streams(), ws.sessions()), (0, 0));
    }
    wait_until(LIMIT, || held() == before);
}
