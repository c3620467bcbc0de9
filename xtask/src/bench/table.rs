//! The table on the screen.

use super::callgrind::Count;
use super::clients::{Bench, Client, OURS};
use super::measure::{Cell, Outcome};
use super::noise;
use super::scenarios::Scenario;
use super::verdict::{Verdict, judge, speed_ratio};

/// Prints a block for each scenario, then the instruction counts and how many targets are met.
pub(super) fn print(bench: &Bench, scenarios: &[Scenario], outcome: &Outcome, counts: &[Count]) {
    let mut verdicts = Vec::new();
    for scenario in scenarios {
        print_scenario(bench, scenario, outcome);
        verdicts.extend(
            scenario
                .targets
                .iter()
                .map(|&target| judge(outcome, scenario, target)),
        );
    }
    print_counts(counts);
    print_noise(outcome);
    if !verdicts.is_empty() {
        let number = |met| {
            verdicts
                .iter()
                .filter(|verdict: &&Verdict| verdict.met == met)
                .count()
        };
        println!(
            "\ntargets (pinned): {} met, {} missed, {} without figures",
            number(Some(true)),
            number(Some(false)),
            number(None)
        );
    }
}

/// Says so when other programs had a part in the figures.
fn print_noise(outcome: &Outcome) {
    let busy = outcome
        .others
        .iter()
        .filter(|&&share| share > noise::TOO_BUSY);
    let (times, most) = busy.fold((0, 0.0_f64), |(times, most), &share| {
        (times + 1, most.max(share))
    });
    if times > 0 {
        println!(
            "\nNOT A QUIET MACHINE: in {times} of {} parts of the run other programs used up to {:.0} % of it; run again",
            outcome.others.len(),
            most * 100.0
        );
    }
}

fn print_scenario(bench: &Bench, scenario: &Scenario, outcome: &Outcome) {
    let unit = scenario.kind.unit();
    let mut rows = vec![[
        format!("{} ({unit})", scenario.title),
        "pinned".to_owned(),
        "ours is".to_owned(),
        "unpinned".to_owned(),
        "ours is".to_owned(),
        "peak MB".to_owned(),
        "target".to_owned(),
        "result".to_owned(),
    ]];
    let mut notes = Vec::new();
    for client in &bench.clients {
        let Some(pinned) = outcome.get(scenario, "pinned", client.name) else {
            continue;
        };
        let free = outcome.get(scenario, "unpinned", client.name);
        if pinned.samples.is_empty() && pinned.failures.is_empty() {
            continue;
        }
        rows.push(row(client, scenario, outcome, pinned, free));
        // A client may have several targets in its row's place (time and memory); each gets a line.
        for target in scenario
            .targets
            .iter()
            .filter(|target| target.client() == client.name)
        {
            let verdict = judge(outcome, scenario, *target);
            if rows.last().is_some_and(|last| !last[6].is_empty()) {
                rows.push(std::array::from_fn(|_| String::new()));
            }
            if let Some(last) = rows.last_mut() {
                last[7] = verdict.words();
                last[6] = verdict.asked;
            }
        }
        for failures in [Some(pinned), free]
            .into_iter()
            .flatten()
            .map(|cell| &cell.failures)
        {
            if let Some(reason) = failures.first() {
                notes.push(format!("  {}: {reason}", client.label));
            }
        }
    }
    print_rows(&rows);
    let connections = bench.clients.iter().filter_map(|client| {
        let most = outcome
            .get(scenario, "pinned", client.name)?
            .connections()?;
        Some(format!("{} {most:.0}", client.name))
    });
    let connections: Vec<_> = connections.collect();
    if !connections.is_empty() {
        println!("  TCP connections: {}", connections.join(", "));
    }
    notes.dedup();
    for note in notes {
        println!("{note}");
    }
}

fn row(
    client: &Client,
    scenario: &Scenario,
    outcome: &Outcome,
    pinned: &Cell,
    free: Option<&Cell>,
) -> [String; 8] {
    let figure = |cell: Option<&Cell>| {
        let cell = cell.filter(|cell| !cell.samples.is_empty() || !cell.failures.is_empty());
        match cell.map(Cell::median) {
            Some(Some(median)) => number(median),
            Some(None) => "failed".to_owned(),
            None => "–".to_owned(),
        }
    };
    let ratio = |cores| match speed_ratio(outcome, scenario, cores, client.name) {
        Some(_) if client.name == OURS => String::new(),
        Some(ratio) if ratio < 10.0 => format!("{ratio:.2}×"),
        Some(ratio) => format!("{ratio:.1}×"),
        None => String::new(),
    };
    [
        client.label.clone(),
        figure(Some(pinned)),
        ratio("pinned"),
        figure(free),
        ratio("unpinned"),
        pinned
            .peak_mb()
            .map_or_else(|| "–".to_owned(), |mb| format!("{mb:.1}")),
        String::new(),
        String::new(),
    ]
}

fn print_counts(counts: &[Count]) {
    if counts.is_empty() {
        return;
    }
    println!("\ninstructions a call (callgrind, client only)");
    for count in counts {
        let ours = counts
            .iter()
            .find(|other| other.client == OURS && other.scenario == count.scenario)
            .and_then(|other| other.instructions.as_ref().ok());
        let figure = match (&count.instructions, ours) {
            (Err(reason), _) => format!("– ({reason})"),
            (Ok(theirs), Some(ours)) if count.client != OURS => {
                format!("{} ({:.2}× ours)", number(*theirs), theirs / ours)
            }
            (Ok(instructions), _) => number(*instructions),
        };
        println!("  {:<28} {:<20} {figure}", count.title, count.label);
    }
}

/// Three significant places are enough, with thousands apart.
fn number(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn print_rows(rows: &[[String; 8]]) {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: [usize; 8] = std::array::from_fn(width);
    println!();
    for (index, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[column] - cell.chars().count());
            // Names and words to the left, numbers to the right.
            let parts = if column == 0 || column >= 6 {
                [cell, &pad]
            } else {
                [&pad, cell]
            };
            for part in parts {
                line.push_str(part);
            }
            line.push_str("  ");
        }
        println!("{}", line.trim_end());
        if index == 0 {
            println!("{}", "─".repeat(widths.iter().sum::<usize>() + 2 * 7));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_are_short_and_grouped() {
        for (value, expected) in [
            (3.456, "3.46"),
            (99.0, "99.00"),
            (123.4, "123"),
            (1_234_567.0, "1,234,567"),
        ] {
            assert_eq!(number(value), expected);
        }
    }
}
