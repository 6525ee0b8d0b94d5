//! The services behind one endpoint, told apart by the service in the credential scope: EC2, and of Auto Scaling and
//! STS what clients of EC2 ask on the way.

/// A service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// Amazon EC2.
    #[default]
    Ec2,
    /// Amazon EC2 Auto Scaling.
    AutoScaling,
    /// AWS Security Token Service.
    Sts,
}

impl Service {
    /// The service that a credential scope names; whatever is not one of the others is EC2.
    pub fn of_scope(name: &str) -> Self {
        match name {
            "autoscaling" => Self::AutoScaling,
            "sts" => Self::Sts,
            _ => Self::Ec2,
        }
    }

    /// The service that has `action`.
    pub fn of_action(action: &str) -> Self {
        match action {
            "DescribeAutoScalingGroups" | "DescribeLaunchConfigurations" => Self::AutoScaling,
            "GetCallerIdentity" => Self::Sts,
            _ => Self::Ec2,
        }
    }

    /// Its name in credential scopes.
    pub fn scope(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::AutoScaling => "autoscaling",
            Self::Sts => "sts",
        }
    }

    /// Its name in texts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ec2 => "AmazonEC2",
            Self::AutoScaling => "AmazonAutoScaling",
            Self::Sts => "AWSSecurityTokenService",
        }
    }

    /// The version of its API.
    pub fn version(self) -> &'static str {
        match self {
            Self::Ec2 => super::VERSION,
            Self::AutoScaling => "2011-01-01",
            Self::Sts => "2011-06-15",
        }
    }

    /// The namespace of its answers.
    pub fn namespace(self) -> &'static str {
        match self {
            Self::Ec2 => "http://ec2.amazonaws.com/doc/2016-11-15/",
            Self::AutoScaling => "http://autoscaling.amazonaws.com/doc/2011-01-01/",
            Self::Sts => "https://sts.amazonaws.com/doc/2011-06-15/",
        }
    }
}
