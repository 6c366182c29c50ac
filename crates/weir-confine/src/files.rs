//! Restricts the files that a confined process may read and write, by Landlock.

use std::fs;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};

use crate::view::{DEVICES, View};
use crate::{Error, Policy, Writing};

/// The newest version of Landlock's interface that this code supports; an older kernel enforces what it knows.
const ABI_KNOWN: ABI = ABI::V9;

/// The places of a policy, opened.
pub(crate) struct Rules(Vec<(PathFd, BitFlags<AccessFs>)>);

impl Rules {
    pub(crate) fn open(policy: &Policy) -> Result<Rules, Error> {
        let mut rules = vec![(open(Path::new("/"))?, AccessFs::ReadDir.into())]; // names are no secret
        let mut view = view_of(policy)?;
        if policy.alone {
            view.hide_other_processes();
        }
        for path in view.roots() {
            // A place that vanished since it was listed needs no rule.
            if let Ok(place) = PathFd::new(&path) {
                rules.push((place, AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute));
            }
        }
        for path in DEVICES {
            if let Ok(place) = PathFd::new(path) {
                rules.push((place, AccessFs::ReadFile | AccessFs::WriteFile));
            }
        }
        for (path, writing) in &policy.write {
            rules.push((open(path)?, writable(*writing)));
        }
        Ok(Rules(rules))
    }

    pub(crate) fn enforce(self) -> Result<(), Error> {
        let enforced = ruleset(self.0).map_err(|error| Error::Landlock(error.to_string()))?;
        if enforced == RulesetStatus::NotEnforced {
            return Err(Error::Unavailable);
        }
        Ok(())
    }
}

/// The view of the host's files that the policy permits.
pub(crate) fn view_of(policy: &Policy) -> Result<View, Error> {
    let read = crate::canonical(policy.read.iter().chain(policy.write.iter().map(|(path, _)| path)))?;
    let user = rustix::process::geteuid();
    let mut view = View::of_host(&homes(user.as_raw()), user.is_root(), &read, &policy.hide);
    for (path, _) in &policy.write {
        let place = fs::canonicalize(path).map_err(Error::path(path))?;
        if let Some(secret) = view.hidden_below(&place) {
            return Err(Error::Holds(path.clone(), secret));
        }
    }
    if let Some(path) = &policy.work {
        if !view.work_in(&fs::canonicalize(path).map_err(Error::path(path))?) {
            return Err(Error::Hidden(path.clone()));
        }
    }
    Ok(view)
}

/// This user's home, and this process' HOME: `sudo` may leave the caller's.
fn homes(user: u32) -> Vec<PathBuf> {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let of_user = users.lines().filter_map(|line| {
        let fields = line.split(':').collect::<Vec<_>>();
        (fields.get(2)?.parse() == Ok(user)).then(|| fields.get(5).map(PathBuf::from)).flatten()
    });
    let named = std::env::var_os("HOME").map(PathBuf::from);
    of_user.chain(named).filter(|home| home.parent().is_some()).collect()
}

fn open(path: &Path) -> Result<PathFd, Error> {
    fs::metadata(path).map_err(Error::path(path))?; // the crate's error does not name the reason
    PathFd::new(path).map_err(|error| Error::Landlock(error.to_string()))
}

fn writable(writing: Writing) -> BitFlags<AccessFs> {
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
    let specials =
        AccessFs::MakeSym | AccessFs::MakeFifo | AccessFs::MakeSock | AccessFs::Refer | AccessFs::ResolveUnix;
    let all = AccessFs::from_all(ABI_KNOWN) & !devices;
    match writing {
        Writing::Everything => all,
        Writing::Files => all & !specials,
    }
}

fn ruleset(rules: Vec<(PathFd, BitFlags<AccessFs>)>) -> Result<RulesetStatus, landlock::RulesetError> {
    let mut made = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI_KNOWN))?
        .handle_access(AccessNet::from_all(ABI_KNOWN))?
        .scope(Scope::from_all(ABI_KNOWN))?
        .create()?;
    for (place, access) in rules {
        made = made.add_rule(PathBeneath::new(place, access))?;
    }
    Ok(made.restrict_self()?.ruleset)
}
