//! Floods from a child process.

use serde_json::json;
use trunkline_testkit::Script;

use crate::bench::{Entry, Flooder, Lab, scripted};
use crate::text::Flood;

pub(crate) fn start(lab: &Lab, name: &str, flood: &Flood) -> Option<Flooder> {
    let (text, stderr) = match flood {
        Flood::Messages(text) => (format!("{text}\n"), false),
        Flood::Stderr(text) => (text.clone(), true),
        other => panic!("{other:?} cannot be sent on stdio"),
    };
    let begun = lab.scratch.join(format!("{name}.begun"));
    let flood = json!({"flood": {"text": text, "stderr": stderr, "begun": begun}});
    let script = Script::default().tool("flood", json!([flood]));
    Some(Flooder {
        entry: Entry::Server(scripted(&lab.scratch, name, &script)),
        tool: Some("flood"),
        begun: Some(begun),
        keep: Box::new(()),
    })
}
