//! Floods from a child process.

use serde_json::json;
use serde_json::value::to_raw_value;
use trunkline_testkit::Script;

use crate::bench::{Entry, Flooder, Lab, scripted};
use crate::text::{Flood, list_changed};

pub(crate) fn start(lab: &Lab, name: &str, flood: &Flood) -> Option<Flooder> {
    let begun = lab.scratch.join(format!("{name}.begun"));
    let flooding = |text: String, stderr: bool| {
        let flood = json!({"flood": {"text": text, "stderr": stderr, "begun": begun}});
        Script::default().tool("flood", json!([flood]))
    };
    let script = match flood {
        Flood::Messages(text) => flooding(format!("{text}\n"), false),
        Flood::Stderr(text) => flooding(text.clone(), true),
        Flood::Results(result) => {
            let answer = json!([{"touch": begun}, {"reply": result}]);
            Script::default().tool("flood", answer)
        }
        Flood::Tools(tools) => {
            let Flood::Messages(changed) = list_changed() else {
                unreachable!("a notification is a message");
            };
            let mut script = flooding(format!("{changed}\n"), false);
            script.raw_tools = tools
                .iter()
                .map(|tool| to_raw_value(tool).unwrap())
                .collect();
            script
        }
        other => panic!("{other:?} cannot be sent on stdio"),
    };
    Some(Flooder {
        entry: Entry::Server(scripted(&lab.scratch, name, &script)),
        tool: Some("flood"),
        begun: Some(begun),
        keep: Box::new(()),
    })
}
