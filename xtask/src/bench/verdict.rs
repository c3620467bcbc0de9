//! Ratios and whether a target is met.

use super::clients::OURS;
use super::measure::Outcome;
use super::scenarios::{Scenario, Target};

/// A target with what was measured.
pub(super) struct Verdict {
    /// What is asked, as shown.
    pub(super) asked: String,
    /// What was measured in the same terms.
    pub(super) value: Option<f64>,
    /// `None` when one of the figures is missing.
    pub(super) met: Option<bool>,
}

/// How many times as fast as `client` we are: 2.0 is twice the calls, or half the time.
pub(super) fn speed_ratio(
    outcome: &Outcome,
    scenario: &Scenario,
    cores: &'static str,
    client: &'static str,
) -> Option<f64> {
    let figure = |client| outcome.get(scenario, cores, client)?.median();
    let (ours, theirs) = (figure(OURS)?, figure(client)?);
    Some(if scenario.kind.is_rate() {
        ours / theirs
    } else {
        theirs / ours
    })
}

/// Our figure, pinned, in the scenario of that name.
fn ours(outcome: &Outcome, scenario: &'static str) -> Option<f64> {
    outcome.cells.get(&(scenario, "pinned", OURS))?.median()
}

/// Judges by the pinned figures.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub(super) fn judge(outcome: &Outcome, scenario: &Scenario, target: Target) -> Verdict {
    match target {
        Target::Faster(client, times) => {
            let value = speed_ratio(outcome, scenario, "pinned", client);
            Verdict {
                asked: format!("≥ {times}×"),
                value,
                met: value.map(|value| value >= times),
            }
        }
        Target::Within(client, times) => {
            let value = speed_ratio(outcome, scenario, "pinned", client).map(f64::recip);
            Verdict {
                asked: format!("≤ {times}× its time"),
                value,
                met: value.map(|value| value <= times),
            }
        }
        Target::Ms(limit) => {
            let value = ours(outcome, scenario.name);
            Verdict {
                asked: format!("≤ {limit} ms"),
                value,
                met: value.map(|value| value <= limit),
            }
        }
        Target::Linear(base, n, times) => {
            let each = |name, n: usize| Some(ours(outcome, name)? / n as f64);
            let value = each(scenario.name, scenario.n)
                .zip(each(base, n))
                .map(|(each, of_base)| each / of_base);
            Verdict {
                asked: format!("≤ {times}× {base} for each"),
                value,
                met: value.map(|value| value <= times),
            }
        }
        Target::Beside(other, times) => {
            let value = ours(outcome, scenario.name)
                .zip(ours(outcome, other))
                .map(|(here, there)| here / there);
            let is_rate = scenario.kind.is_rate();
            let sign = if is_rate { '≥' } else { '≤' };
            Verdict {
                asked: format!("{sign} {times}× {other}"),
                value,
                met: value.map(|value| {
                    if is_rate {
                        value >= times
                    } else {
                        value <= times
                    }
                }),
            }
        }
        Target::Connections(most) => {
            let value = outcome
                .get(scenario, "pinned", OURS)
                .and_then(super::measure::Cell::connections);
            Verdict {
                asked: format!("≤ {most} connection"),
                value,
                met: value.map(|value| value <= most),
            }
        }
        Target::PeakMb(limit) => {
            let value = outcome
                .get(scenario, "pinned", OURS)
                .and_then(super::measure::Cell::peak_mb);
            Verdict {
                asked: format!("≤ {limit} MB"),
                value,
                met: value.map(|value| value <= limit),
            }
        }
    }
}

impl Verdict {
    /// `met`, `missed` with the value, or a dash.
    pub(super) fn words(&self) -> String {
        match (self.met, self.value) {
            (Some(true), Some(value)) => format!("met ({value:.2})"),
            (Some(false), Some(value)) => format!("MISSED ({value:.2})"),
            _ => "–".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::Cell;
    use super::super::scenarios::selected;
    use super::*;

    #[test]
    fn rates_and_times_give_the_same_kind_of_ratio() {
        let scenarios = selected(false, &[]);
        let check = |name: &str, ours: f64, theirs: f64, target: Target, met: bool| {
            let scenario = scenarios
                .iter()
                .find(|scenario| scenario.name == name)
                .expect("a scenario");
            let mut outcome = Outcome::default();
            for (client, sample) in [(OURS, ours), ("rmcp", theirs)] {
                let cell = Cell {
                    samples: vec![sample],
                    peak_mb: vec![sample],
                    connections: vec![sample],
                    ..Cell::default()
                };
                outcome
                    .cells
                    .insert((scenario.name, "pinned", client), cell);
            }
            assert_eq!(
                judge(&outcome, scenario, target).met,
                Some(met),
                "{name} {target:?}"
            );
        };
        check(
            "inflight-64",
            400.0,
            100.0,
            Target::Faster("rmcp", 3.5),
            true,
        );
        check(
            "inflight-64",
            300.0,
            100.0,
            Target::Faster("rmcp", 3.5),
            false,
        );
        check("list-10000", 10.0, 40.0, Target::Faster("rmcp", 3.0), true);
        check("oneshot", 10.0, 5.5, Target::Within("rmcp", 2.0), true);
        check("oneshot", 12.0, 5.5, Target::Within("rmcp", 2.0), false);
        check("list-10000", 61.0, 40.0, Target::PeakMb(60.0), false);
        check("load-1000", 9.0, 0.0, Target::Ms(10.0), true);
        check("load-1000", 11.0, 0.0, Target::Ms(10.0), false);
        let once = Target::Beside("inflight-64", 1.0);
        check("inflight-64", 9.0, 0.0, once, true);
        check(
            "inflight-64",
            9.0,
            0.0,
            Target::Beside("inflight-64", 1.1),
            false,
        );
        check(
            "mixed-200",
            9.0,
            0.0,
            Target::Beside("mixed-200", 1.1),
            true,
        );
        check(
            "mixed-200",
            9.0,
            0.0,
            Target::Beside("mixed-200", 0.9),
            false,
        );
        let single = Target::Connections(1.0);
        check("http-sequential-100b", 1.0, 0.0, single, true);
        check("http-sequential-100b", 2.0, 0.0, single, false);
        // The same scenario as its own base: twice as many in the same time is half for each.
        let half = Target::Linear("load-1000", 500, 1.25);
        check("load-1000", 9.0, 0.0, half, true);
        let double = Target::Linear("load-1000", 2_000, 1.25);
        check("load-1000", 9.0, 0.0, double, false);
    }
}
