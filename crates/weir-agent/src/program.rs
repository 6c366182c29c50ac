//! The programs of a plan as commands: the values of variables in their arguments, and their files.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use weir_plan::{Programs, Ready, Transport};

use crate::census::Side;
use crate::command::{Readiness, Spec};
use crate::context::Context;
use crate::error::AgentError;

const NS_PER_S: u64 = 1_000_000_000;

/// The program at a side of a flow, if it has one.
///
/// # Errors
/// The program is missing.
pub fn spec(context: &Context, flow: u32, programs: &Programs, side: Side) -> Result<Option<Spec>, AgentError> {
    let arguments = match side {
        Side::Command => &programs.command,
        Side::Peer => match &programs.peer {
            Some(peer) => peer,
            None => return Ok(None),
        },
    };
    let sends = crate::census::side_of(programs, true) == side;
    let environment = variables(context, flow, sends);
    let arguments: Vec<OsString> = arguments.iter().map(|text| fill(text, &environment).into()).collect();
    let node = if sends { context.flow(flow).from } else { context.flow(flow).to };
    check_program(&arguments[0]).map_err(|problem| {
        let (name, host) = (&context.flow(flow).name, &context.job.plan.nodes[node as usize].name);
        AgentError(format!("flow {name}: {} at {host}: {problem}", arguments[0].to_string_lossy()))
    })?;
    let readiness = match side {
        Side::Command => Readiness::Started,
        Side::Peer => readiness(&programs.ready, context.job.port(flow)),
    };
    Ok(Some(Spec { arguments, environment, netns: context.host(node).netns.clone(), readiness }))
}

fn readiness(ready: &Ready, own_port: u16) -> Readiness {
    match ready {
        Ready::Started => Readiness::Started,
        Ready::Port { port } => Readiness::Port(port.unwrap_or(own_port)),
        Ready::Output { text } => Readiness::Line(text.clone()),
        Ready::After { time_ns } => Readiness::After(Duration::from_nanos(*time_ns)),
    }
}

/// The values of [`weir_plan::VARIABLES`] at an end of a flow.
fn variables(context: &Context, flow: u32, sends: bool) -> Vec<(String, String)> {
    let plan = context.flow(flow);
    let (here, there) = if sends { (plan.from, plan.to) } else { (plan.to, plan.from) };
    let end = plan.stop_ns.unwrap_or(u64::MAX).min(context.job.plan.end_ns);
    let mut found = vec![
        ("WEIR_PEER", context.host(there).address.to_string()),
        ("WEIR_HOST", context.host(here).address.to_string()),
        ("WEIR_PORT", context.job.port(flow).to_string()),
        ("WEIR_FLOW", plan.name.clone()),
        ("WEIR_SECONDS", end.saturating_sub(plan.start_ns).div_ceil(NS_PER_S).to_string()),
    ];
    if let Transport::Tcp(tcp) = &plan.transport {
        let known = context.job.kernel_cc.get(&tcp.cc).map(String::as_str);
        found.push(("WEIR_CC", known.or(tcp.cc.strip_prefix("linux:")).unwrap_or(&tcp.cc).to_owned()));
    }
    found.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Replaces each `${NAME}` of a variable by its value; leaves all other text.
fn fill(text: &str, variables: &[(String, String)]) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        let found = variables.iter().find_map(|(name, value)| {
            let rest = rest[2..].strip_prefix(name.as_str())?.strip_prefix('}')?;
            Some((value, rest))
        });
        match found {
            Some((value, after)) => {
                filled.push_str(value);
                rest = after;
            }
            None => {
                filled.push_str("${");
                rest = &rest[2..];
            }
        }
    }
    filled + rest
}

/// Checks before the plan begins that a program can be executed.
fn check_program(program: &OsString) -> Result<(), &'static str> {
    let path = Path::new(program);
    if program.as_bytes().contains(&b'/') {
        return if is_executable(path) { Ok(()) } else { Err("it is not there, or not executable") };
    }
    let folders = env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
    let found = env::split_paths(&folders).any(|folder| is_executable(&folder.join(path)));
    if found { Ok(()) } else { Err("there is no such program in PATH; is it installed?") }
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_arguments_stand_for_their_values() {
        let variables = vec![("WEIR_PEER".to_owned(), "10.0.0.2".to_owned()), ("WEIR_PORT".into(), "7".into())];
        let filled = |text| fill(text, &variables);
        assert_eq!(filled("http://${WEIR_PEER}:${WEIR_PORT}/"), "http://10.0.0.2:7/");
        assert_eq!(filled("${WEIR_PEER"), "${WEIR_PEER");
        assert_eq!(filled("$WEIR_PEER ${HOME} ${${WEIR_PORT}"), "$WEIR_PEER ${HOME} ${7");
        assert_eq!(filled(""), "");
    }

    #[test]
    fn programs_are_looked_for_in_path() {
        assert_eq!(check_program(&"sh".into()), Ok(()));
        assert_eq!(check_program(&"/bin/sh".into()), Ok(()));
        assert!(check_program(&"no-such-program-of-weir".into()).is_err());
        assert!(check_program(&"/etc/passwd".into()).is_err());
        assert!(check_program(&"/bin".into()).is_err());
    }
}
