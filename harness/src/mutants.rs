//! The seeded bugs of all components.

use substrate::mutant::Mutant;
use substrate::words::nearest;

/// All seeded bugs; none in a release without the feature `mutants`.
pub fn all() -> Vec<Mutant> {
    if substrate::mutant::BUILT_IN {
        let servers = [
            mock_ec2::mutants::MUTANTS,
            fake_apiserver::mutants::MUTANTS,
            csi_mock::mutants::MUTANTS,
            csi_disk::mutants::MUTANTS,
        ];
        let servers = servers.into_iter().flatten();
        servers.chain(controllers::mutants::all()).chain(controllers::node_agent::mutants::MUTANTS).copied().collect()
    } else {
        Vec::new()
    }
}

/// Checks that `names` are seeded bugs of this build.
///
/// # Errors
/// Names the first unknown one.
pub fn check(names: &[String]) -> Result<(), String> {
    let all = all();
    for name in names {
        if all.iter().any(|mutant| mutant.name == *name) {
            continue;
        }
        if all.is_empty() {
            return Err("--mutant: this release has no planted defects; build it with `--features mutants`".to_owned());
        }
        let near = nearest(name, all.iter().map(|m| m.name)).map(|n| format!("; did you mean `{n}`?"));
        return Err(format!("--mutant: `{name}` is not a planted defect{}", near.unwrap_or_default()));
    }
    Ok(())
}
