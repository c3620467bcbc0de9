//! Bearer tokens.

use serde_json::{Value, json};
use trunkline_gateway::store::{NewToken, now_millis};
use trunkline_testkit::wait_until;

use crate::lab::{Lab, get_events, in_session, modern};
use crate::raw::SOON;

fn with_token(request: &str, token: &str) -> String {
    request.replace("Host:", &format!("Authorization: Bearer {token}\r\nHost:"))
}

#[test]
fn a_required_token_must_be_present_known_valid_and_not_revoked() {
    let lab = Lab::with(|options| options.require_token = true);
    let list = modern("/mcp", "tools/list", json!({}));
    let missing = lab.send(&list);
    assert_eq!(
        (missing.status, missing.header("www-authenticate")),
        (401, Some("Bearer"))
    );
    let token = lab.token("laptop");
    assert_eq!(lab.send(with_token(&list, &token)).status, 200);
    let expired = NewToken::generate("old", None, 0, Some(now_millis())).unwrap();
    lab.runtime
        .block_on(lab.stores.tokens.insert(expired.record))
        .unwrap();
    let tampered = format!("{}x", &token[..token.len() - 1]);
    for wrong in [
        "x",
        "trunkline_x",
        &tampered,
        &expired.token,
        &token.to_lowercase(),
    ] {
        let reply = lab.send(with_token(&list, wrong));
        assert_eq!(reply.status, 401, "{wrong}");
        assert_eq!(
            reply.header("www-authenticate"),
            Some("Bearer error=\"invalid_token\"")
        );
        assert!(
            !reply.text().contains(wrong) || wrong == "x",
            "{}",
            reply.text()
        );
    }
    let basic = list.replace("Host:", &format!("Authorization: Basic {token}\r\nHost:"));
    assert_eq!(lab.send(basic).status, 401);
    let twice = with_token(&with_token(&list, &token), &token);
    assert_eq!(lab.send(twice).status, 401);
    // The token is not for the address line.
    let query = list.replace("/mcp", &format!("/mcp?access_token={token}"));
    assert_eq!(lab.send(query).status, 401);
    lab.runtime
        .block_on(lab.stores.tokens.revoke("laptop", now_millis()))
        .unwrap();
    wait_until(SOON, || lab.send(with_token(&list, &token)).status == 401);
    assert_eq!(lab.get("/metrics").status, 401);
    assert_eq!(lab.get("/healthz").status, 200);
}

#[test]
fn failed_attempts_are_limited_and_a_valid_token_is_not() {
    let lab = Lab::with(|options| options.require_token = true);
    let token = lab.token("laptop");
    let list = modern("/mcp", "tools/list", json!({}));
    let statuses: Vec<u16> = (0..40).map(|_| lab.send(&list).status).collect();
    assert_eq!(statuses[0], 401);
    assert!(statuses.contains(&429), "{statuses:?}");
    assert_eq!(lab.send(with_token(&list, &token)).status, 200);
}

#[test]
fn a_revoked_token_ends_the_streams_and_calls_of_its_client() {
    let lab = Lab::with(|options| options.require_token = true);
    let (ended, spared) = (lab.token("ended"), lab.token("spared"));
    let header = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let standing = |token: &str| {
        let session = in_session(&lab.initialize(&header(token)));
        let mut stream = lab.connect();
        stream.send(get_events("/mcp", &format!("{}{session}", header(token))));
        assert_eq!(stream.head().unwrap().status, 200);
        stream
    };
    let send = |token: &str, method: &str, params: Value| {
        let mut connection = lab.connect();
        connection.send(with_token(&modern("/mcp", method, params), token));
        connection
    };
    let mut stream = standing(&ended);
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let mut listening = send(&ended, "subscriptions/listen", wanted);
    assert_eq!(listening.head().unwrap().status, 200);
    let slow = json!({"name": "mcp__lab__slow"});
    let _cut = send(&ended, "tools/call", slow.clone());
    lab.gate.wait_for(1);
    let mut spared_call = send(&spared, "tools/call", slow);
    lab.gate.wait_for(2);

    let revoked = lab.stores.tokens.revoke("ended", now_millis());
    lab.runtime.block_on(revoked).unwrap();
    // They end at once, not with their next message.
    for open in [&mut stream, &mut listening] {
        let mut pending = Vec::new();
        while open.event(&mut pending).is_some() {}
    }
    lab.gate.wait_for(1);

    lab.gate.release(1);
    assert_eq!(spared_call.reply().status, 200);
    standing(&spared);
}
