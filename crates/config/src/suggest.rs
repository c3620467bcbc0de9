//! Suggests names for typos.

/// Returns the candidate nearest to `wanted`, if it is near enough to suggest.
///
/// ```
/// assert_eq!(trunkline_config::nearest("get-smu", ["get-sum", "echo"]), Some("get-sum"));
/// assert_eq!(trunkline_config::nearest("weather", ["get-sum", "echo"]), None);
/// assert_eq!(trunkline_config::nearest("web", ["db"]), None);
/// ```
pub fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // In a word of three letters, two edits make another word.
    let near_enough = match wanted.chars().count() {
        0..=3 => 1,
        length => length / 3 + 1,
    };
    candidates
        .into_iter()
        .map(|candidate| (distance(wanted, candidate), candidate))
        .filter(|(distance, candidate)| {
            *distance <= near_enough || candidate.eq_ignore_ascii_case(wanted)
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns the Levenshtein distance.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_single_edits() {
        for (one, other, expected) in [
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("kitten", "sitting", 3),
            ("ab", "ba", 2),
        ] {
            assert_eq!(distance(one, other), expected, "{one} {other}");
        }
    }
}
