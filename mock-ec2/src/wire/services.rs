//! Services behind one endpoint, distinguished by the service in the credential scope: EC2, the EBS direct API, and
//! those operations of Auto Scaling, the recycle bin and STS that clients of EC2 call.

/// A service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// Amazon EC2.
    #[default]
    Ec2,
    /// Amazon EC2 Auto Scaling.
    AutoScaling,
    /// The EBS direct API.
    Ebs,
    /// The recycle bin.
    Rbin,
    /// AWS Security Token Service.
    Sts,
}

impl Service {
    /// All services, EC2 first.
    pub const ALL: [Self; 5] = [Self::Ec2, Self::AutoScaling, Self::Ebs, Self::Rbin, Self::Sts];

    /// Returns the service of a credential scope.
    pub fn of_scope(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|service| service.scope() == name)
    }

    /// Returns the service that has `action`.
    pub fn of_action(action: &str) -> Self {
        Self::ALL.into_iter().find(|service| service.actions().contains(&action)).unwrap_or_default()
    }

    /// Returns the Query actions of a service other than EC2.
    fn actions(self) -> &'static [&'static str] {
        match self {
            Self::AutoScaling => &["DescribeAutoScalingGroups", "DescribeLaunchConfigurations"],
            Self::Sts => &["GetCallerIdentity"],
            Self::Ec2 | Self::Ebs | Self::Rbin => &[],
        }
    }

    /// Returns its name in credential scopes.
    pub fn scope(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::AutoScaling => "autoscaling",
            Self::Ebs => "ebs",
            Self::Rbin => "rbin",
            Self::Sts => "sts",
        }
    }

    /// Returns its name in texts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ec2 => "AmazonEC2",
            Self::AutoScaling => "AmazonAutoScaling",
            Self::Ebs => "AmazonEBS",
            Self::Rbin => "AmazonRecycleBin",
            Self::Sts => "AWSSecurityTokenService",
        }
    }

    /// Returns its scope, with its operations if only a few are served.
    pub fn description(self) -> String {
        match self.actions() {
            [] => self.scope().to_owned(),
            actions => format!("{} ({})", self.scope(), actions.join(", ")),
        }
    }

    /// Returns the version of its API.
    pub fn version(self) -> &'static str {
        match self {
            Self::Ec2 => super::VERSION,
            Self::AutoScaling => "2011-01-01",
            Self::Ebs => "2019-11-02",
            Self::Rbin => "2021-06-15",
            Self::Sts => "2011-06-15",
        }
    }

    /// Returns the namespace of its answers; empty if they are JSON.
    pub fn namespace(self) -> &'static str {
        match self {
            Self::Ec2 => "http://ec2.amazonaws.com/doc/2016-11-15/",
            Self::AutoScaling => "http://autoscaling.amazonaws.com/doc/2011-01-01/",
            Self::Ebs | Self::Rbin => "",
            Self::Sts => "https://sts.amazonaws.com/doc/2011-06-15/",
        }
    }
}
