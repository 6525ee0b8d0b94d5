//! Served regions: one cloud each, with its own zones and data.

use std::sync::Arc;

use substrate::{Now, Seed};

use crate::cloud::Ec2;
use crate::config::{Config, Error};
use crate::state::error::Ec2Error;

/// Regions of AWS's main partition, both default and opt-in ones.
pub const ALL: &[&str] = &[
    "us-east-1",
    "us-east-2",
    "us-west-1",
    "us-west-2",
    "af-south-1",
    "ap-east-1",
    "ap-east-2",
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-northeast-3",
    "ap-south-1",
    "ap-south-2",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-southeast-3",
    "ap-southeast-4",
    "ap-southeast-5",
    "ap-southeast-6",
    "ap-southeast-7",
    "ca-central-1",
    "ca-west-1",
    "eu-central-1",
    "eu-central-2",
    "eu-north-1",
    "eu-south-1",
    "eu-south-2",
    "eu-west-1",
    "eu-west-2",
    "eu-west-3",
    "il-central-1",
    "me-central-1",
    "me-south-1",
    "mx-central-1",
    "sa-east-1",
];

/// Returns true if `zone` belongs to `region`: `us-east-1a`, `us-east-1-bos-1a`.
pub fn lies_in(zone: &str, region: &str) -> bool {
    zone.strip_prefix(region).is_some_and(|rest| !rest.is_empty() && !rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Clouds by region; at least one. The first is the default.
#[derive(Clone, Debug)]
pub struct Regions(Arc<[Ec2]>);

impl From<Ec2> for Regions {
    fn from(only: Ec2) -> Self {
        Self(Arc::new([only]))
    }
}

impl Regions {
    /// Creates a cloud for each of `configs`, which must be at least one, each with its own region. Ids of the first
    /// follow from `seed`, those of others from `seed` and their region.
    ///
    /// # Errors
    /// Like [`Ec2::new`]; also for no region, or a duplicate.
    pub fn new(seed: &Seed, configs: Vec<Config>) -> Result<Self, Error> {
        let bad = |reason: String| Err(Error::Config { field: "region".to_owned(), reason });
        let names: Vec<String> = configs.iter().map(|config| config.region.clone()).collect();
        if names.is_empty() {
            return bad("at least one is needed".to_owned());
        }
        if let Some((_, twice)) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            return bad(format!("`{twice}` is there twice"));
        }
        let clouds = configs.into_iter().enumerate().map(|(at, config)| {
            let own = if at == 0 { seed.clone() } else { seed.child(&config.region) };
            Ec2::new(&own, Config { regions: names.clone(), ..config })
        });
        Ok(Self(clouds.collect::<Result<_, _>>()?))
    }

    /// Returns the clouds, in order.
    pub fn clouds(&self) -> &[Ec2] {
        &self.0
    }

    /// Returns the cloud of `region`; by default the first.
    pub(crate) fn get(&self, region: Option<&str>) -> Option<&Ec2> {
        match region {
            None => self.0.first(),
            Some(name) => self.0.iter().find(|cloud| cloud.settings().region == name),
        }
    }

    /// Returns the number of EC2 requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.0.iter().map(|cloud| cloud.counts().requests()).sum()
    }

    /// Rewrites all state files (see [`Ec2::save`]).
    ///
    /// # Errors
    /// The first error.
    pub fn save(&self, now: Now) -> std::io::Result<()> {
        self.0.iter().try_for_each(|cloud| cloud.save(now))
    }

    /// See [`Ec2::close`].
    pub fn close(&self) {
        self.0.iter().for_each(Ec2::close);
    }
}

/// Returns EC2's error for a region other than those of `served`.
pub(crate) fn refusal(region: &str, served: &[String]) -> Ec2Error {
    Ec2Error::RegionNotServed { region: region.to_owned(), served: served.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::zone_group_in_words;

    #[test]
    fn each_region_has_a_name_in_words() {
        for region in ALL {
            assert!(zone_group_in_words(region).is_some(), "{region}");
        }
    }
}
