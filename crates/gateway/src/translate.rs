//! Results in the form of the client's era. Payloads pass as they are; modern results get the
//! members that their era requires.

use trunkline_wire::version::Era;
use trunkline_wire::{Json, ObjectWriter};

/// Whether a client may cache a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caching {
    /// The result is of a kind that is never cached.
    None,
    /// The result needs caching hints. Ours are the safest: stale at once, for this client only.
    Hinted,
}

/// Returns a result for a client of `era`.
pub(crate) fn result(era: Era, result: Json, caching: Caching) -> Json {
    if era == Era::Legacy {
        return result;
    }
    let (mut typed, mut ttl, mut scope) = (false, false, false);
    result.members(|key, _| match key {
        "resultType" => typed = true,
        "ttlMs" => ttl = true,
        "cacheScope" => scope = true,
        _ => {}
    });
    let hinted = caching == Caching::None || (ttl && scope);
    if typed && hinted {
        return result;
    }
    let mut whole = ObjectWriter::with_capacity(result.as_str().len() + 96);
    if !typed {
        whole.string("resultType", "complete");
    }
    if !hinted {
        if !ttl {
            whole.integer("ttlMs", 0);
        }
        if !scope {
            whole.string("cacheScope", "private");
        }
    }
    result.members(|key, value| _ = whole.raw(key, &value));
    whole.finish()
}

/// Returns the result that asks a modern client for input.
pub(crate) fn input_required(requests: &Json, state: &str) -> Json {
    let mut result = ObjectWriter::with_capacity(requests.as_str().len() + 128);
    result
        .string("resultType", "input_required")
        .raw("inputRequests", requests)
        .string("requestState", state);
    result.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modern_result_has_a_type_and_caching_hints_where_they_belong() {
        let check = |era, text: &str, caching, expected: &str| {
            let json = Json::parse(text.to_owned()).unwrap();
            assert_eq!(result(era, json, caching).as_str(), expected);
        };
        let (modern, legacy) = (Era::Modern, Era::Legacy);
        let plain = r#"{"content":[ ]}"#;
        check(legacy, plain, Caching::Hinted, plain);
        check(
            modern,
            plain,
            Caching::None,
            r#"{"resultType":"complete","content":[ ]}"#,
        );
        check(
            modern,
            r#"{"contents":[]}"#,
            Caching::Hinted,
            r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[]}"#,
        );
        let whole = r#"{"resultType":"complete","ttlMs":5,"cacheScope":"public"}"#;
        check(modern, whole, Caching::Hinted, whole);
        check(modern, "{}", Caching::None, r#"{"resultType":"complete"}"#);
    }
}
