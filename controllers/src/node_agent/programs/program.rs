//! Programs of a pod's containers: command, environment and user (upstream `kubelet_pods.go` makeEnvironmentVariables).
//! A pure machine over the objects that the pod refers to.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource};

use super::entry_point::words;
use super::host_name::{self, HostName};
use super::program_volumes;
use super::resource_field;
use super::seen::{ADDRESS, Seen, field};
use super::unprepared::Unprepared;
use crate::machine::api::ProgramSpec;
use crate::node_agent::expansion::expanded;

/// The containers of a pod, as far as they can be prepared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prepared {
    /// Programs of the containers that name one. The others have none: images are not run.
    pub programs: BTreeMap<String, ProgramSpec>,
    /// Containers that cannot start yet, each with the reason.
    pub unprepared: BTreeMap<String, String>,
}

/// Prepares the program of each container.
///
/// # Errors
/// The first volume that cannot be prepared.
pub(super) fn programs(seen: &Seen<'_>) -> Result<Prepared, Unprepared> {
    let spec = seen.pod.spec.iter();
    let all = spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    let mut prepared = Prepared::default();
    for container in all {
        let name = container.name.clone();
        let made = match words(container) {
            Some(words) => program(seen, container, &words).map(Some),
            None => environment(seen, container).map(|_| None),
        };
        match made {
            Ok(program) => prepared.programs.extend(program.map(|program| (name, program))),
            Err(why) => drop(prepared.unprepared.insert(name, why.of_container().ok_or(why)?)),
        }
    }
    Ok(prepared)
}

fn program(seen: &Seen<'_>, container: &Container, words: &[&str]) -> Result<ProgramSpec, Unprepared> {
    let mut env = environment(seen, container)?;
    let of_pod = seen.pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let own = container.security_context.as_ref();
    let id = |id: Option<i64>| id.and_then(|id| u32::try_from(id).ok());
    let groups = of_pod.and_then(|pod| pod.supplemental_groups.as_ref()).into_iter().flatten();
    let (mounts, without) = program_volumes::mounts(seen, container, &env)?;
    let command = words.iter().map(|word| expanded(word, &env)).collect();
    let HostName { name, hosts } = host_name::of(seen.pod, ADDRESS);
    let tty = container.tty.unwrap_or_default();
    if tty {
        // As containerd does. References to variables do not see it.
        env.entry("TERM".to_owned()).or_insert_with(|| "xterm".to_owned());
    }
    Ok(ProgramSpec {
        command,
        host_name: name,
        hosts,
        directory: container.working_dir.clone().filter(|path| !path.is_empty()).unwrap_or_else(|| "/".to_owned()),
        user: id(own.and_then(|own| own.run_as_user).or(of_pod.and_then(|pod| pod.run_as_user))),
        group: id(own.and_then(|own| own.run_as_group).or(of_pod.and_then(|pod| pod.run_as_group))),
        fs_group: id(of_pod.and_then(|pod| pod.fs_group)),
        groups: groups.filter_map(|group| id(Some(*group))).collect(),
        stdin: container.stdin.unwrap_or_default(),
        stdin_once: container.stdin_once.unwrap_or_default(),
        tty,
        readonly_root: own.and_then(|own| own.read_only_root_filesystem).unwrap_or_default(),
        stop_signal: container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stop_signal.clone()),
        message_path: container.termination_message_path.clone().unwrap_or_default(),
        message_from_log: container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError"),
        env,
        mounts,
        without,
    })
}

/// Returns the environment: variables of Services, then sources, then variables in their order.
fn environment(seen: &Seen<'_>, container: &Container) -> Result<BTreeMap<String, String>, Unprepared> {
    let mut env = seen.references.services.clone();
    env.extend([
        ("HOSTNAME".to_owned(), host_name::of(seen.pod, ADDRESS).name),
        ("HOME".to_owned(), "/".to_owned()),
        ("PATH".to_owned(), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned()),
    ]);
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        let data = match (&source.config_map_ref, &source.secret_ref) {
            (Some(map), _) => seen.references.config_map(&map.name, map.optional),
            (None, Some(secret)) => seen.references.secret(&secret.name, secret.optional),
            (None, None) => continue,
        };
        for (key, value) in data.map_err(Unprepared::config)?.into_iter().flatten() {
            env.insert(format!("{prefix}{key}"), value.clone());
        }
    }
    for variable in container.env.iter().flatten() {
        if let Some(value) = value(seen, container, variable, &env)? {
            env.insert(variable.name.clone(), value);
        }
    }
    Ok(env)
}

fn value(
    seen: &Seen<'_>,
    container: &Container,
    variable: &EnvVar,
    env: &BTreeMap<String, String>,
) -> Result<Option<String>, Unprepared> {
    let Some(source) = &variable.value_from else {
        let text = variable.value.as_deref().unwrap_or_default();
        return Ok(Some(expanded(text, env)));
    };
    match source {
        EnvVarSource { field_ref: Some(field), .. } => self::field(seen, field)
            .map(Some)
            .ok_or_else(|| Unprepared::config(format!("unsupported fieldPath: {}", field.field_path))),
        EnvVarSource { resource_field_ref: Some(of), .. } => {
            resource_field::amount(seen, Some(container), of).map(Some).map_err(Unprepared::config)
        }
        EnvVarSource { config_map_key_ref: Some(key), .. } => {
            seen.references.config_map_key(&key.name, &key.key, key.optional).map_err(Unprepared::config)
        }
        EnvVarSource { secret_key_ref: Some(key), .. } => {
            seen.references.secret_key(&key.name, &key.key, key.optional).map_err(Unprepared::config)
        }
        _ => Err(Unprepared::config(format!(
            "env {}: only fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef are served",
            variable.name
        ))),
    }
}

#[cfg(test)]
mod tests {
    use substrate::json::{Value, from_value, json};

    use k8s_openapi::api::core::v1::Pod;

    use super::super::references::References;
    use super::*;
    use crate::scheduler::resources::Resources;

    fn pod(container: Value) -> Pod {
        let metadata = json!({ "name": "p", "namespace": "d", "uid": "u", "labels": { "app": "web" } });
        from_value(json!({ "metadata": metadata, "spec": { "nodeName": "n", "containers": [container] } })).unwrap()
    }

    fn prepared(pod: &Pod, references: &References) -> Prepared {
        let host_ip = "10.0.0.1".to_owned();
        let (published, allocatable) = (BTreeMap::new(), Resources::default());
        programs(&Seen { pod, host_ip, references, host_paths: false, published, allocatable })
            .expect("no volume fails")
    }

    fn of(pod: &Pod, references: &References) -> BTreeMap<String, ProgramSpec> {
        prepared(pod, references).programs
    }

    #[test]
    fn a_container_with_a_command_has_a_program() {
        let env = json!([
            { "name": "LABEL", "valueFrom": { "fieldRef": { "fieldPath": "metadata.labels['app']" } } },
            { "name": "BOTH", "value": "$(LABEL) on $(NODE)" },
            { "name": "KEY", "valueFrom": { "configMapKeyRef": { "name": "m", "key": "k" } } },
        ]);
        let container = json!({ "name": "app", "command": ["sh", "-c"], "args": ["echo $(LABEL)"], "env": env,
            "envFrom": [{ "prefix": "S_", "secretRef": { "name": "s" } }] });
        let mut references = References::default();
        let data = |key: &str, value: &str| Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
        references.config_maps.insert("m".to_owned(), data("k", "v"));
        references.secrets.insert("s".to_owned(), data("pw", "secret"));
        let all = of(&pod(container.clone()), &references);
        let app = &all["app"];
        assert_eq!(app.command, ["sh", "-c", "echo web"]);
        let env = |name: &str| app.env.get(name).map(String::as_str);
        assert_eq!(
            (env("BOTH"), env("KEY"), env("S_pw"), env("HOSTNAME")),
            (Some("web on $(NODE)"), Some("v"), Some("secret"), Some("p"))
        );
        references.config_maps.insert("m".to_owned(), None);
        assert_eq!((app.stdin, app.stdin_once, app.tty, env("TERM")), (false, false, false, None));
        let Prepared { programs, unprepared } = prepared(&pod(container), &references);
        let why = unprepared.get("app").map(String::as_str);
        assert_eq!((programs.len(), why), (0, Some("configmap \"m\" not found")));
        let image = pod(json!({ "name": "app", "image": "nginx", "args": ["-v"] }));
        assert!(of(&image, &References::default()).is_empty(), "an image is not run");
    }

    #[test]
    fn a_program_stops_by_the_signal_of_its_container() {
        for (lifecycle, signal) in [(json!({ "stopSignal": "SIGUSR1" }), Some("SIGUSR1")), (json!(null), None)] {
            let container = json!({ "name": "app", "command": ["sh"], "lifecycle": lifecycle });
            let all = of(&pod(container), &References::default());
            assert_eq!(all["app"].stop_signal.as_deref(), signal);
        }
    }

    #[test]
    fn a_program_writes_to_its_root_unless_its_container_forbids_it() {
        for (context, readonly) in [(json!({ "readOnlyRootFilesystem": true }), true), (json!({}), false)] {
            let container = json!({ "name": "app", "command": ["sh"], "securityContext": context });
            let all = of(&pod(container), &References::default());
            assert_eq!(all["app"].readonly_root, readonly);
        }
    }

    #[test]
    fn a_program_has_the_termination_message_of_its_container() {
        let container = json!({ "name": "app", "command": ["sh"], "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "FallbackToLogsOnError" });
        let all = of(&pod(container), &References::default());
        assert_eq!((all["app"].message_path.as_str(), all["app"].message_from_log), ("/dev/termination-log", true));
        let file = json!({ "name": "app", "command": ["sh"], "terminationMessagePolicy": "File" });
        let all = of(&pod(file), &References::default());
        assert_eq!((all["app"].message_path.as_str(), all["app"].message_from_log), ("", false));
    }

    #[test]
    fn a_program_belongs_to_the_groups_of_its_pod() {
        let mut pod = pod(json!({ "name": "app", "command": ["sh"] }));
        let context = from_value(json!({ "fsGroup": 1000, "supplementalGroups": [5, 7] })).unwrap();
        pod.spec.as_mut().unwrap().security_context = Some(context);
        let all = of(&pod, &References::default());
        assert_eq!((all["app"].fs_group, all["app"].groups.as_slice()), (Some(1000), [5, 7].as_slice()));
    }

    #[test]
    fn a_program_has_the_standard_input_and_the_terminal_of_its_container() {
        let container = json!({ "name": "app", "command": ["sh"], "stdin": true, "stdinOnce": true, "tty": true });
        let all = of(&pod(container), &References::default());
        let app = &all["app"];
        let term = app.env.get("TERM").map(String::as_str);
        assert_eq!((app.stdin, app.stdin_once, app.tty, term), (true, true, true, Some("xterm")));
    }
}
