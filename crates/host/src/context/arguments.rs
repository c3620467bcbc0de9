//! Assigns the words after a prompt's name to its arguments (CTX-2).

use trunkline_wire::mcp::PromptArgument;

use trunkline_config::nearest;

/// Assigns words to arguments: `key=value` if the prompt declares that argument, otherwise by
/// position. `declared` is `None` if the prompt does not declare its arguments; then every word
/// must be named. An `Err` completes a sentence about the prompt.
pub(super) fn assign(
    declared: Option<&[PromptArgument]>,
    words: &[String],
) -> Result<Vec<(String, String)>, String> {
    let Some(declared) = declared else {
        return words.iter().map(|word| named(word)).collect();
    };
    let index = |name: &str| declared.iter().position(|argument| argument.name == name);
    let mut values: Vec<Option<&str>> = vec![None; declared.len()];
    let mut by_position = Vec::new();
    for word in words {
        let split = word.split_once('=');
        match split.and_then(|(name, value)| Some((index(name)?, value))) {
            Some((at, value)) => {
                if values[at].replace(value).is_some() {
                    let name = &declared[at].name;
                    return Err(format!("was given its argument \"{name}\" twice"));
                }
            }
            None => by_position.push(word.as_str()),
        }
    }
    for word in by_position {
        match values.iter_mut().find(|value| value.is_none()) {
            Some(value) => *value = Some(word),
            None => return Err(too_many(declared, word)),
        }
    }
    let missing: Vec<&str> = declared
        .iter()
        .zip(&values)
        .filter(|(argument, value)| argument.required && value.is_none())
        .map(|(argument, _)| argument.name.as_str())
        .collect();
    if !missing.is_empty() {
        let plural = if missing.len() == 1 { "" } else { "s" };
        return Err(format!(
            "needs the argument{plural} \"{}\"",
            missing.join("\", \"")
        ));
    }
    let given = declared.iter().zip(values);
    let given = given.filter_map(|(argument, value)| Some((argument, value?)));
    Ok(given
        .map(|(argument, value)| (argument.name.clone(), value.to_owned()))
        .collect())
}

fn named(word: &str) -> Result<(String, String), String> {
    match word.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!(
            "does not say what it takes; write key=value instead of \"{word}\""
        )),
    }
}

fn too_many(declared: &[PromptArgument], word: &str) -> String {
    let names = || declared.iter().map(|argument| argument.name.as_str());
    if declared.is_empty() {
        return "takes no arguments".to_owned();
    }
    let meant = word
        .split_once('=')
        .and_then(|(name, _)| nearest(name, names()));
    match meant {
        Some(meant) => format!("has no use for \"{word}\"; did you mean {meant}=…?"),
        None => format!(
            "has no use for \"{word}\"; it takes {}",
            names().collect::<Vec<_>>().join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared() -> Vec<PromptArgument> {
        let argument = |name: &str, required| PromptArgument {
            name: name.to_owned(),
            description: None,
            required,
        };
        vec![
            argument("city", true),
            argument("state", true),
            argument("units", false),
        ]
    }

    #[track_caller]
    fn check(words: &[&str], expected: Result<&[(&str, &str)], &str>) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match (assign(Some(&declared()), &words), expected) {
            (Ok(found), Ok(expected)) => {
                let found: Vec<_> = found
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.as_str()))
                    .collect();
                assert_eq!(found, expected);
            }
            (Err(found), Err(expected)) => assert_eq!(found, expected),
            (found, _) => panic!("{words:?}: {found:?}"),
        }
    }

    #[test]
    fn words_become_arguments_by_name_and_by_position() {
        check(&["Bonn", "NRW"], Ok(&[("city", "Bonn"), ("state", "NRW")]));
        check(
            &["state=NRW", "Bonn", "C"],
            Ok(&[("city", "Bonn"), ("state", "NRW"), ("units", "C")]),
        );
        check(&["a=b", "x=y"], Ok(&[("city", "a=b"), ("state", "x=y")]));
        check(&["", "state="], Ok(&[("city", ""), ("state", "")]));
    }

    #[test]
    fn mistakes_are_named_before_anything_is_sent() {
        check(&[], Err("needs the arguments \"city\", \"state\""));
        check(&["Bonn"], Err("needs the argument \"state\""));
        check(
            &["city=a", "city=b"],
            Err("was given its argument \"city\" twice"),
        );
        check(
            &["a", "b", "c", "d"],
            Err("has no use for \"d\"; it takes city, state, units"),
        );
        check(
            &["a", "b", "c", "stat=d"],
            Err("has no use for \"stat=d\"; did you mean state=…?"),
        );
        assert_eq!(
            assign(Some(&[]), &["x".to_owned()]).unwrap_err(),
            "takes no arguments"
        );
    }

    #[test]
    fn a_prompt_that_does_not_say_what_it_takes_gets_what_is_named() {
        assert_eq!(
            assign(None, &["a=b=c".to_owned()]).unwrap(),
            [("a".to_owned(), "b=c".to_owned())]
        );
        assert!(assign(None, &["a".to_owned()]).is_err());
        assert!(assign(None, &[]).unwrap().is_empty());
    }
}
