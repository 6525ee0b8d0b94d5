//! Indexes of an Indexed Job (`indexed_job_utils.go`).

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::JobSpec;
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodTemplateSpec};

use crate::kube::Kind;

/// Annotation and label with the index of a pod.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Environment variable with the index.
const VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// Longest prefix of generated names.
const NAME_LIMIT: usize = 63 - 5;

/// Returns true if each pod of the Job has an index.
pub(super) fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

/// Returns the index of a pod; none if it has none.
pub(super) fn index(pod: &Pod) -> Option<i32> {
    pod.annotation(INDEX)?.parse().ok().filter(|index| *index >= 0)
}

/// Returns the valid index of a pod of the Job.
pub(super) fn valid_index(pod: &Pod, spec: &JobSpec) -> Option<i32> {
    index(pod).filter(|index| *index < spec.completions.unwrap_or(0))
}

/// Parses the indexes of a status, as in `0,2-4`; those beyond `completions` are left out.
pub(super) fn parse(text: &str, completions: i32) -> BTreeSet<i32> {
    let mut all = BTreeSet::new();
    for interval in text.split(',').filter(|interval| !interval.is_empty()) {
        let (first, last) = interval.split_once('-').unwrap_or((interval, interval));
        if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) {
            all.extend(first..=last.min(completions - 1));
        }
    }
    all
}

/// Writes indexes as in a status.
pub(super) fn write(indexes: &BTreeSet<i32>) -> String {
    let mut intervals: Vec<(i32, i32)> = Vec::new();
    for &index in indexes {
        match intervals.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => intervals.push((index, index)),
        }
    }
    let text = |(first, last): &(i32, i32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    intervals.iter().map(text).collect::<Vec<_>>().join(",")
}

/// Returns the lowest indexes that have not ended and have none of the pods (`firstPendingIndexes`).
pub(super) fn pending<'a>(
    spec: &JobSpec,
    ended: &BTreeSet<i32>,
    pods: impl IntoIterator<Item = &'a Pod>,
    count: usize,
) -> Vec<i32> {
    let taken: BTreeSet<i32> = pods.into_iter().filter_map(index).collect();
    let all = 0..spec.completions.unwrap_or(0);
    all.filter(|index| !ended.contains(index) && !taken.contains(index)).take(count).collect()
}

/// Gives the containers of a template the variable with the index (`addCompletionIndexEnvVariables`).
pub(super) fn add_variable(template: &mut PodTemplateSpec) {
    let Some(spec) = &mut template.spec else { return };
    let field_ref = ObjectFieldSelector { field_path: format!("metadata.labels['{INDEX}']"), api_version: None };
    let source = EnvVarSource { field_ref: Some(field_ref), ..EnvVarSource::default() };
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        let variables = container.env.get_or_insert_default();
        if variables.iter().all(|variable| variable.name != VARIABLE) {
            let name = VARIABLE.to_owned();
            variables.push(EnvVar { name, value: None, value_from: Some(source.clone()) });
        }
    }
}

/// Gives the template of one pod its index, and returns the prefix of the pod's name.
pub(super) fn set_index(template: &mut PodTemplateSpec, job: &str, index: i32) -> String {
    let metadata = template.metadata.get_or_insert_default();
    metadata.annotations.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
    metadata.labels.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
    template.spec.get_or_insert_default().hostname = Some(format!("{job}-{index}"));
    let suffix = format!("-{index}-");
    let length = NAME_LIMIT.saturating_sub(suffix.len());
    format!("{}{suffix}", job.get(..length).unwrap_or(job))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_written_as_upstream_writes_them() {
        let all = BTreeSet::from([0, 2, 3, 5, 6, 7]);
        assert_eq!(write(&all), "0,2,3,5-7");
        assert_eq!(parse("0,2,3,5-7", 100), all);
        assert_eq!(parse("0,2-9", 4), BTreeSet::from([0, 2, 3]));
        assert_eq!(write(&BTreeSet::new()), "");
    }
}
