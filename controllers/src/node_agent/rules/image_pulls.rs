//! Images that containers wait for, as a pure machine: Events, waiting states, and waits between pulls (upstream
//! `image_manager.go` EnsureImageExists). No registry exists: every image whose name does not deny it is on the machine.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Container;

use super::image_name::ImageName;
use crate::node_agent::pod_table::orders::SYNC_BACKOFF;
use crate::node_agent::progress::NotStarted;

/// First wait after a pull that failed (`imageBackOffPeriod`).
const INITIAL: Duration = Duration::from_secs(10);
/// Longest wait (`MaxImageBackOff`).
const MAX: Duration = Duration::from_secs(300);
/// Time until kubelet sees the sandbox of the pod, and syncs the pod again (`plegRelistPeriod`).
const RELIST: Duration = Duration::from_secs(1);

/// Failed attempt to have the image of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// State of the container.
    pub waits: NotStarted,
    /// Type, reason and message of each Event.
    pub events: Vec<(&'static str, &'static str, String)>,
    /// Time until the next attempt.
    pub again: Duration,
}

impl Failure {
    fn new(
        reason: &'static str,
        message: String,
        mut events: Vec<(&'static str, &'static str, String)>,
        again: Duration,
    ) -> Self {
        events.push(("Warning", "Failed", format!("Error: {reason}")));
        Self { waits: NotStarted { reason, message }, events, again }
    }
}

/// Last pull of an image, which failed.
#[derive(Clone, Debug)]
struct Failed {
    wait: Duration,
    at: Duration,
    why: String,
}

/// Failed pulls of the images of a pod. A kubelet that restarts forgets them.
#[derive(Debug, Default)]
pub(crate) struct Pulls(BTreeMap<String, Failed>);

impl Pulls {
    /// Tries to have the image of a container at `now`. Returns None if it is there. `scale` shortens all waits.
    pub fn attempt(
        &mut self,
        container: &Container,
        now: Duration,
        scale: impl Fn(Duration) -> Duration,
    ) -> Option<Failure> {
        let image = container.image.as_deref().filter(|image| !image.is_empty())?;
        let later = scale(SYNC_BACKOFF);
        let name = match ImageName::parse(image) {
            Ok(name) if name.exists() => return None,
            Ok(name) => name,
            Err(why) => {
                let message =
                    format!("Failed to apply default image tag {image:?}: couldn't parse image name {image:?}: {why}");
                let events = vec![("Warning", "InspectFailed", message.clone())];
                return Some(Failure::new("InvalidImageName", message, events, later));
            }
        };
        if container.image_pull_policy.as_deref() == Some("Never") {
            let message = format!("Container image {image:?} is not present with pull policy of Never");
            let events = vec![("Warning", "ErrImageNeverPull", message.clone())];
            return Some(Failure::new("ErrImageNeverPull", message, events, later));
        }
        let before = self.0.get(image);
        if let Some(failed) = before.filter(|failed| now.saturating_sub(failed.at) < scale(failed.wait)) {
            let message = format!("Back-off pulling image {image:?}");
            let events = vec![("Normal", "BackOff", message.clone())];
            let message = format!("{message}: ErrImagePull: {}", failed.why);
            return Some(Failure::new("ImagePullBackOff", message, events, later));
        }
        let why = format!(
            "rpc error: code = NotFound desc = failed to pull and unpack image \"{name}\": failed to resolve reference \
             \"{name}\": {name}: not found"
        );
        let again = if before.is_none() { scale(RELIST) } else { later };
        let wait = before.map_or(INITIAL, |failed| (failed.wait * 2).min(MAX));
        self.0.insert(image.to_owned(), Failed { wait, at: now, why: why.clone() });
        let events = vec![
            ("Normal", "Pulling", format!("Pulling image {image:?}")),
            ("Warning", "Failed", format!("Failed to pull image {image:?}: {why}")),
        ];
        Some(Failure::new("ErrImagePull", why, events, again))
    }
}

/// Returns true if a container can have its image.
pub(crate) fn is_there(container: &Container) -> bool {
    let image = container.image.as_deref().unwrap_or_default();
    image.is_empty() || ImageName::parse(image).is_ok_and(|name| name.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(image: &str, policy: &str) -> Container {
        Container { image: Some(image.to_owned()), image_pull_policy: Some(policy.to_owned()), ..Container::default() }
    }

    #[test]
    fn a_pull_that_fails_is_tried_again_after_longer_and_longer_waits() {
        let (mut pulls, container) = (Pulls::default(), container("webserver:404", "IfNotPresent"));
        let (mut now, mut pulled) = (0, Vec::new());
        let mut reasons = Vec::new();
        while now < 700 {
            let failure = pulls.attempt(&container, Duration::from_secs(now), |wait| wait).expect("no image");
            if failure.waits.reason == "ErrImagePull" {
                pulled.push(now);
            }
            reasons.push(failure.waits.reason);
            now += failure.again.as_secs();
        }
        assert_eq!(reasons[..3], ["ErrImagePull", "ImagePullBackOff", "ErrImagePull"]);
        assert_eq!(pulled, [0, 11, 31, 71, 151, 311, 611]);
    }

    #[test]
    fn a_container_waits_with_the_reason_of_its_image() {
        let mut pulls = Pulls::default();
        let mut of = |image: &str, policy: &str, second: u64| {
            pulls.attempt(&container(image, policy), Duration::from_secs(second), |wait| wait)
        };
        assert_eq!((of("busybox", "Always", 0), of("", "Always", 0)), (None, None));
        let first = of("invalid.registry.k8s.io/a:1", "Always", 0).expect("no image");
        let why = "rpc error: code = NotFound desc = failed to pull and unpack image \
                   \"invalid.registry.k8s.io/a:1\": failed to resolve reference \"invalid.registry.k8s.io/a:1\": \
                   invalid.registry.k8s.io/a:1: not found";
        assert_eq!((first.waits.reason, first.waits.message.as_str()), ("ErrImagePull", why));
        let events: Vec<_> = first.events.iter().map(|(kind, reason, _)| (*kind, *reason)).collect();
        assert_eq!(events, [("Normal", "Pulling"), ("Warning", "Failed"), ("Warning", "Failed")]);
        assert_eq!(first.events[2].2, "Error: ErrImagePull");
        let second = of("invalid.registry.k8s.io/a:1", "Always", 1).expect("no image");
        let message = format!("Back-off pulling image \"invalid.registry.k8s.io/a:1\": ErrImagePull: {why}");
        assert_eq!((second.waits.reason, second.waits.message), ("ImagePullBackOff", message));
        let never = of("a:404", "Never", 0).expect("no image");
        assert_eq!(never.waits.reason, "ErrImageNeverPull");
        let wrong = of("a:$tag", "Always", 0).expect("no image");
        assert_eq!(wrong.events[0].1, "InspectFailed");
        assert_eq!(
            wrong.waits.message,
            "Failed to apply default image tag \"a:$tag\": couldn't parse image name \"a:$tag\": invalid reference format"
        );
    }
}
