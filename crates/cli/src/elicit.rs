//! Answers elicitation requests with `cancel` until the terminal has dialogs (ELI-1).

use trunkline::elicit::{Ask, ElicitAnswer, Elicitation};

use crate::output;

/// Cancels every request, with a warning.
pub(crate) async fn cancel_all(elicitation: Elicitation) -> ElicitAnswer {
    let Elicitation {
        server,
        message,
        ask,
        ..
    } = elicitation;
    let page = match ask {
        Ask::Url(url) => format!(" ({url})"),
        _ => String::new(),
    };
    output::warning(&format!(
        "\"{server}\" asks: {message}{page}; trunkline cannot prompt for this yet and cancelled it"
    ));
    ElicitAnswer::Cancel
}
