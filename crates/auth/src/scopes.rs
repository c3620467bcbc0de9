//! The scopes to request.

/// The most bytes of scopes that a server may name. They are part of a URL, and are stored.
const MAX_SCOPES: usize = 8 * 1024;

/// Where the scopes of an authorization request come from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScopeSources<'s> {
    /// `oauth.scopes` of the entry.
    pub(crate) configured: Option<&'s [String]>,
    /// The challenge of the refusal that led here.
    pub(crate) challenged: &'s [String],
    /// `scopes_supported` of the protected resource.
    pub(crate) resource: &'s [String],
    /// `scopes_supported` of the authorization server.
    pub(crate) issuer: &'s [String],
    /// The scopes requested from this issuer before (AUTH-6).
    pub(crate) previous: &'s [String],
}

/// Chooses the scopes to request: the configured ones, or else those of the challenge, or else
/// those of the resource; in each case with all that were requested before. `offline_access` is
/// added where the issuer offers it, because it may give a refresh token only then. An empty result
/// means that no scope is sent.
pub(crate) fn choose_scopes(sources: ScopeSources) -> Vec<String> {
    let base = match sources.configured {
        Some(configured) if !configured.is_empty() => configured,
        _ if !sources.challenged.is_empty() => sources.challenged,
        _ => sources.resource,
    };
    let mut scopes = union(sources.previous, base);
    // A step-up names what it needs, whatever is configured.
    scopes = union(&scopes, sources.challenged);
    let offline = "offline_access".to_owned();
    // Alone, it would replace the server's default scopes.
    if !scopes.is_empty() && sources.issuer.contains(&offline) {
        scopes = union(&scopes, &[offline]);
    }
    scopes
}

/// Returns the scopes of a server that are valid (RFC 6749, section 3.3), as many as fit.
pub(crate) fn usable<'s>(scopes: impl IntoIterator<Item = &'s str>) -> Vec<String> {
    let is_valid = |scope: &&str| {
        let is_allowed = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
        !scope.is_empty() && scope.bytes().all(is_allowed)
    };
    let mut length = 0;
    let fits = |scope: &&str| {
        length += scope.len() + 1;
        length <= MAX_SCOPES
    };
    let scopes = scopes.into_iter().filter(is_valid).take_while(fits);
    scopes.map(str::to_owned).collect()
}

/// Returns `first`, then what only `second` has, without duplicates.
pub(crate) fn union(first: &[String], second: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for scope in first.iter().chain(second) {
        if !all.contains(scope) {
            all.push(scope.clone());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_server_names_only_valid_scopes_and_not_too_many() {
        let named = ["a", "", "b:c/d", "\u{1b}[31m", "x\"y", "z\n", "é", "e"];
        assert_eq!(usable(named), ["a", "b:c/d", "e"]);
        let many: Vec<String> = (0..100_000).map(|n| format!("scope-{n}")).collect();
        let kept = usable(many.iter().map(String::as_str));
        assert!(kept.len() > 100 && kept.join(" ").len() <= MAX_SCOPES);
        assert_eq!(
            usable(["x".repeat(MAX_SCOPES).as_str()]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn scopes_are_chosen() {
        // configured, challenged, resource, issuer, previous, expected
        let cases = [
            ["", "", "", "", "", ""],
            ["", "", "r1 r2", "i", "", "r1 r2"],
            ["", "c", "r1 r2", "i", "", "c"],
            ["k", "", "r", "", "", "k"],
            ["k", "c", "r", "", "", "k c"],
            ["", "c", "r", "", "p1 p2", "p1 p2 c"],
            ["", "p1 c", "r", "", "p1", "p1 c"],
            ["", "c", "", "x offline_access", "", "c offline_access"],
            ["", "", "", "offline_access", "", ""],
            [
                "",
                "",
                "r",
                "offline_access",
                "offline_access",
                "offline_access r",
            ],
        ];
        for [configured, challenged, resource, issuer, previous, expected] in cases {
            let chosen = choose_scopes(ScopeSources {
                configured: Some(&list(configured)),
                challenged: &list(challenged),
                resource: &list(resource),
                issuer: &list(issuer),
                previous: &list(previous),
            });
            assert_eq!(chosen.join(" "), expected);
        }
    }
}
