//! The scopes to request.

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
