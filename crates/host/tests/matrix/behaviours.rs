//! Behaviours that hold over every transport. Each function is one column of the matrix.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use trunkline::CallOptions;
use trunkline::call::CallErrorKind;
use trunkline::tool::tool_name;

use crate::lab::{Bench, Garbage, Lab, call as call_with};
use crate::waiting::{eventually, in_time};

pub(crate) async fn connect<L: Lab>() {
    let bench = Bench::<L>::start().await;
    assert_eq!(bench.connected().era(), L::ERA);
    assert!(bench.lab.connections() > 0 || !L::COUNTED);
    bench.end().await;
}

pub(crate) async fn list<L: Lab>() {
    let bench = Bench::<L>::start().await;
    let pool = bench.host.pool();
    let names: Vec<_> = pool.tools().iter().map(|tool| tool.name.as_str()).collect();
    let offered = L::tools().into_iter();
    let expected: Vec<_> = offered.map(|tool| tool_name(L::SERVER, tool)).collect();
    assert_eq!(names, expected);
    bench.end().await;
}

pub(crate) async fn call<L: Lab>() {
    let bench = Bench::<L>::start().await;
    for n in 0..5 {
        let text = bench.call("echo", json!({"n": n})).await.unwrap();
        assert_eq!(text, json!({"n": n}).to_string());
    }
    let outcomes = join_all((0..50).map(|n| bench.call("echo", json!({"n": n})))).await;
    for (n, outcome) in outcomes.into_iter().enumerate() {
        assert_eq!(outcome.unwrap(), json!({"n": n}).to_string());
    }
    bench.end().await;
}

pub(crate) async fn progress<L: Lab>() {
    let bench = Bench::<L>::start().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let options = CallOptions::new().on_progress(move |step| {
        told.lock().unwrap().push((step.progress, step.total));
    });
    let outcome = call_with::<L>(&bench.host, "steps", json!({}), options).await;
    assert_eq!(outcome.unwrap(), "done");
    let steps = [1.0, 2.0, 3.0, 4.0, 5.0].map(|step| (step, Some(5.0)));
    assert_eq!(*seen.lock().unwrap(), steps);
    bench.end().await;
}

/// Dropping a call cancels it at the server, and only it.
pub(crate) async fn cancel<L: Lab>() {
    let bench = Bench::<L>::start().await;
    let before = bench.connected();
    let dropped = bench.calling("wait");
    let kept = bench.calling("wait");
    bench.waiting(2).await;
    dropped.abort();
    let cancelled = || bench.lab.scratch().read("cancelled").lines().count();
    eventually("the server to be told", || cancelled() == 1).await;
    bench.lab.scratch().write("go", "");
    assert_eq!(
        in_time("the other call", kept).await.unwrap().unwrap(),
        "{}"
    );
    bench.answers().await;
    assert_eq!(cancelled(), 1);
    assert!(Arc::ptr_eq(&before, &bench.connected()));
    drop(before);
    bench.end().await;
}

/// Interrupted calls may have run and say so; later calls reach the server again.
async fn lost<L: Lab>(harm: impl AsyncFnOnce(&L)) {
    let bench = Bench::<L>::start().await;
    let calls = [bench.calling("wait"), bench.calling("wait")];
    bench.waiting(2).await;
    harm(&bench.lab).await;
    for call in calls {
        let error = in_time("the call to end", call).await.unwrap().unwrap_err();
        assert!(error.is_connection(), "{error:?}");
        assert!(error.may_have_run(), "{error}");
    }
    bench.lab.revive();
    bench.answers().await;
    // Nothing that may have run was repeated.
    bench.waiting(2).await;
    bench.end().await;
}

pub(crate) async fn crash<L: Lab>() {
    lost::<L>(async |lab| lab.crash()).await;
}

pub(crate) async fn cut<L: Lab>() {
    lost::<L>(async |lab| lab.cut()).await;
}

/// The in-process counterpart of a crash: a panicking tool ends only its own call.
pub(crate) async fn panic<L: Lab>() {
    let bench = Bench::<L>::start().await;
    let error = bench.call("panic", json!({})).await.unwrap_err();
    assert!(error.kind() == CallErrorKind::ServerError, "{error:?}");
    bench.answers().await;
    bench.end().await;
}

pub(crate) async fn slow<L: Lab>() {
    let bench = Bench::<L>::start().await;
    bench.lab.slow();
    let text = "x".repeat(500);
    let started = Instant::now();
    let answer = bench.call(L::SLOW, json!({"text": text})).await.unwrap();
    assert!(answer.contains(&text), "{answer}");
    assert!(started.elapsed() > Duration::from_millis(20));
    bench.end().await;
}

/// A call ends at its deadline, and the connection recovers.
pub(crate) async fn stall<L: Lab>() {
    let bench = Bench::<L>::start().await;
    bench.lab.stall();
    let limit = Duration::from_millis(300);
    let options = CallOptions::new().timeout(limit);
    let started = Instant::now();
    let outcome = call_with::<L>(&bench.host, "echo", json!({}), options).await;
    let took = started.elapsed();
    assert!(
        outcome
            .as_ref()
            .is_err_and(|error| error.time_limit().is_some()),
        "{outcome:?}"
    );
    assert!(took >= limit && took < limit * 10, "{took:?}");
    bench.lab.resume();
    bench.answers().await;
    bench.end().await;
}

/// Garbage affects at most the call it arrives with.
pub(crate) async fn garbage<L: Lab>() {
    let bench = Bench::<L>::start().await;
    let before = bench.connected();
    let arguments = |n: i32| json!({"n": n});
    let harmed = join_all((0..5).map(|n| bench.call("garbage", arguments(n))));
    let spared = join_all((0..20).map(|n| bench.call("echo", arguments(n))));
    let (harmed, spared) = tokio::join!(harmed, spared);
    for (outcome, n) in spared.into_iter().zip(0..) {
        assert_eq!(outcome.unwrap(), arguments(n).to_string());
    }
    for (outcome, n) in harmed.into_iter().zip(0..) {
        match (L::GARBAGE, outcome) {
            (Garbage::Skipped, outcome) => assert_eq!(outcome.unwrap(), arguments(n).to_string()),
            (Garbage::EndsTheCall, outcome) => {
                let error = outcome.unwrap_err();
                assert!(error.may_have_run(), "{error}");
            }
        }
    }
    assert!(Arc::ptr_eq(&before, &bench.connected()));
    drop(before);
    bench.answers().await;
    bench.end().await;
}

/// An oversized response ends its call immediately and is never held in full.
pub(crate) async fn oversize<L: Lab>() {
    let bench = Bench::<L>::start().await;
    let error = bench.call("huge", json!({})).await.unwrap_err();
    assert!(error.may_have_run(), "{error}");
    assert!(!error.is_timeout(), "{error}");
    bench.answers().await;
    bench.end().await;
}

/// Calls in flight neither delay shutdown nor hang.
pub(crate) async fn shutdown<L: Lab>() {
    let bench = Bench::<L>::start().await;
    let calls = [bench.calling("wait"), bench.calling("wait")];
    bench.waiting(2).await;
    bench.end().await;
    for call in calls {
        let error = in_time("the call to end", call).await.unwrap().unwrap_err();
        assert!(error.is_connection(), "{error:?}");
        assert!(error.may_have_run(), "{error}");
    }
}
