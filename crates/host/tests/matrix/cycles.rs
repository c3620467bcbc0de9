//! Connects and closes repeatedly: memory and descriptors stay constant.
//!
//! `cargo xtask soak` sets the number of cycles and reads the printed figures.

use std::ops::Range;
use std::time::{Duration, Instant};

use trunkline::server::State;

use crate::alone::{self, descriptors, resident};
use crate::lab::Lab;
use crate::labs::net::Net;
use crate::labs::{connector, http, in_process, sdk, sse, stdio, ws};
use crate::waiting::{eventually, in_time};

/// Default number of cycles.
const CYCLES: usize = 200;

/// Cycles until caches and the allocator have warmed up.
const WARM: usize = 50;

/// Memory that the remaining cycles may add.
const SLACK: usize = 12 << 20;

async fn cycle<L: Lab>(lab: &L, cycles: Range<usize>) {
    for n in cycles {
        let host = lab.builder().start();
        in_time("the host to be ready", host.ready()).await;
        let status = host.server(L::SERVER).expect("a server");
        let connected = matches!(status.state, State::Connected(_));
        assert!(connected, "in cycle {n}: {:?}", status.state);
        let shutdown = tokio::time::timeout(Duration::from_secs(5), host.shutdown());
        shutdown.await.expect("a prompt shutdown");
        if n % 100 == 0 {
            lab.forget();
        }
    }
}

async fn flat<L: Lab>(name: &str) {
    let wanted = std::env::var("TRUNKLINE_SOAK_CYCLES").ok();
    let cycles = wanted
        .as_ref()
        .map_or(CYCLES, |text| text.parse().expect("a number of cycles"));
    let warm = if wanted.is_some() { cycles / 10 } else { WARM };
    let lab = L::start();
    let closed = async || {
        eventually("all connections to be closed", || lab.connections() == 0).await;
        lab.forget();
    };
    let started = Instant::now();
    cycle(&lab, 0..warm).await;
    closed().await;
    let (open, held) = (descriptors(), resident());
    cycle(&lab, warm..cycles).await;
    closed().await;
    let took = started.elapsed().as_secs_f64();
    eventually("descriptors as before", || descriptors() <= open).await;
    let (open_now, held_now) = (descriptors(), resident());
    if wanted.is_some() {
        println!("soak {name} {cycles} {took:.1} {open} {open_now} {held} {held_now}");
    }
    let grown = held_now.saturating_sub(held);
    assert!(
        grown < SLACK,
        "{grown} bytes more after {cycles} cycles than after {warm}"
    );
}

macro_rules! cycles {
    ($($name:ident: $lab:ty;)*) => {
        $(#[test]
        fn $name() {
            alone::run(flat::<$lab>(stringify!($name)));
        })*
    };
}

cycles! {
    stdio: stdio::Stdio;
    http_legacy: Net<http::LegacySse>;
    http_modern: Net<http::Modern>;
    sse: Net<sse::Sse>;
    ws: Net<ws::Ws>;
    sdk: sdk::Sdk;
    in_process: in_process::InProcess;
    claudeai_proxy: Net<connector::ClaudeAi>;
}
