//! `weir-bpf hold`: loads congestion controls by requests on its input, and holds them while the input is open.

use crate::{
    error::{BpfError, Code},
    kernel::Kernel,
    load::{Loaded, Request, load},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io::{self, BufRead, Write},
};

/// One line of the input.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Load(Vec<Request>),
    Unload(Vec<String>),
}

/// One line of the output, one per congestion control to be loaded or unloaded, in that order.
#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Loaded {
        loaded: String,
        cc: String,
        /// The kernel's id of the map of its probes' values.
        #[serde(skip_serializing_if = "Option::is_none")]
        probes: Option<u32>,
    },
    Unloaded {
        unloaded: String,
    },
    Failed {
        error: String,
        code: Code,
        #[serde(skip_serializing_if = "Option::is_none")]
        cc: Option<String>,
    },
}

/// Answers each line of `input` on `output` until the input ends, which unloads everything.
///
/// # Errors
/// The input cannot be read or the output not written.
pub fn hold(input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut held: BTreeMap<String, Loaded> = BTreeMap::new();
    for line in input.lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(&line) {
            Ok(Line::Load(requests)) => {
                for request in requests {
                    say(&mut output, &load_one(&mut held, &request))?;
                }
            }
            Ok(Line::Unload(names)) => {
                for name in names {
                    say(&mut output, &unload_one(&mut held, name))?;
                }
            }
            Err(error) => say(&mut output, &failed(&BpfError::Request(error.to_string()), None))?,
        }
    }
    Ok(())
}

fn load_one(held: &mut BTreeMap<String, Loaded>, request: &Request) -> Answer {
    match Kernel::probe().and_then(|kernel| load(&kernel, request)) {
        Ok(loaded) => {
            let (name, probes) = (loaded.name.clone(), loaded.probes().filter(|_| request.probes));
            held.insert(name.clone(), loaded);
            Answer::Loaded { loaded: name, cc: request.cc.clone(), probes }
        }
        Err(error) => failed(&error, Some(request.cc.clone())),
    }
}

fn unload_one(held: &mut BTreeMap<String, Loaded>, name: String) -> Answer {
    if held.remove(&name).is_some() {
        return Answer::Unloaded { unloaded: name };
    }
    failed(&BpfError::Request(format!("{name:?} is not held")), None)
}

fn failed(error: &BpfError, cc: Option<String>) -> Answer {
    Answer::Failed { error: error.to_string(), code: error.code(), cc }
}

fn say(output: &mut impl Write, answer: &Answer) -> io::Result<()> {
    serde_json::to_writer(&mut *output, answer)?;
    output.write_all(b"\n")?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(input: &str) -> Vec<serde_json::Value> {
        let mut output = Vec::new();
        hold(input.as_bytes(), &mut output).expect("memory");
        let text = String::from_utf8(output).expect("JSON");
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    #[test]
    fn what_is_no_request_is_answered_and_the_next_line_read() {
        let answers = answers("{\"lood\": []}\n\nnonsense\n{\"load\": []}\n{\"unload\": [\"nothing\"]}\n");
        assert_eq!(answers.len(), 3);
        for answer in &answers {
            assert_eq!(answer["code"], "bad-input");
            assert!(answer["error"].as_str().expect("a text").contains("expected {\"load\""), "{answer}");
        }
    }
}
