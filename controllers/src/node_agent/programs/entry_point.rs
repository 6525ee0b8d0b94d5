//! Words of a container's program, as far as they are known without its image.

use k8s_openapi::api::core::v1::Container;

use crate::node_agent::rules::image_name::ImageName;

/// Images without an entry point: the arguments of their containers are the program.
const BARE: [&str; 6] = ["alpine", "busybox", "centos", "debian", "fedora", "ubuntu"];

/// Returns the program of a container and its arguments. None if only the image has the program.
pub(crate) fn words(container: &Container) -> Option<Vec<&str>> {
    let command = container.command.as_deref().unwrap_or_default();
    let arguments = container.args.as_deref().unwrap_or_default();
    let is_known = !command.is_empty() || !arguments.is_empty() && is_bare(container);
    is_known.then(|| command.iter().chain(arguments).map(String::as_str).collect())
}

fn is_bare(container: &Container) -> bool {
    let image = container.image.as_deref().unwrap_or_default();
    ImageName::parse(image).is_ok_and(|name| BARE.contains(&name.last()))
}

#[cfg(test)]
mod tests {
    use substrate::json::{from_value, json};

    use super::*;

    #[test]
    fn arguments_are_the_program_of_an_image_without_an_entry_point() {
        let of = |image: &str, command: &[&str], args: &[&str]| {
            let container = json!({ "name": "c", "image": image, "command": command.to_vec(), "args": args.to_vec() });
            let container: Container = from_value(container).unwrap();
            words(&container).map(|words| words.join(" "))
        };
        let known = |text: &str| Some(text.to_owned());
        assert_eq!(of("nginx", &["sh"], &["-c", "x"]), known("sh -c x"));
        assert_eq!(of("registry.k8s.io/e2e-test-images/busybox:1.37.0-1", &[], &["sh"]), known("sh"));
        assert_eq!((of("nginx", &[], &["-v"]), of("busybox", &[], &[])), (None, None));
    }
}
