//! Durations on the command line.

use std::time::Duration;

/// Reads `4s`, `1.5s`, `500ms`, `2m`, or a number of milliseconds.
pub(crate) fn positive_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let unit_at = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let number = number.trim_end();
    let seconds = match unit {
        "" | "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(EXPECTED.to_owned()),
    };
    let is_decimal = number.chars().all(|c| c.is_ascii_digit() || c == '.');
    let number: f64 = match number.parse() {
        Ok(number) if is_decimal => number,
        _ => return Err(EXPECTED.to_owned()),
    };
    match Duration::try_from_secs_f64(number * seconds) {
        Ok(duration) if duration.as_millis() == 0 => Err("must be at least 1 ms".to_owned()),
        Ok(duration) => Ok(duration),
        Err(_) => Err("is too long".to_owned()),
    }
}

const EXPECTED: &str = "expected a duration such as 4s or 500ms, or a number of milliseconds";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_or_are_milliseconds() {
        for (text, millis) in [
            ("4s", Some(4_000)),
            ("4 s", Some(4_000)),
            ("1.5s", Some(1_500)),
            ("500ms", Some(500)),
            ("500", Some(500)),
            ("2m", Some(120_000)),
            ("2min", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("0", None),
            ("0s", None),
            ("0.1ms", None),
            ("-4s", None),
            ("4x", None),
            ("s", None),
            ("", None),
            ("inf", None),
            ("1e3", None),
            ("1.2.3", None),
            ("99999999999999999999h", None),
        ] {
            let duration = positive_duration(text).ok();
            let expected = millis.map(Duration::from_millis);
            assert_eq!(duration, expected, "{text}");
        }
    }
}
