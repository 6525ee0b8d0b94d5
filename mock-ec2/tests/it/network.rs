//! Resources that can only be listed: the default network, images, key pairs, offerings, and the services besides EC2.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use http::Request;
use mock_ec2::LatencyProfile::Instant;
use rstest::rstest;
use substrate::body;

use crate::common::{Answer, Cloud, SIGNED, config, play};

async fn call(cloud: &Cloud, action: &str, rest: &str) -> Answer {
    cloud.ask(&format!("Action={action}&Version=2016-11-15&{rest}")).await
}

/// Sends a request to a service other than EC2.
async fn beside(cloud: &Cloud, service: &str, form: &str) -> Answer {
    let request = Request::builder()
        .method("POST")
        .uri("/")
        .header("authorization", SIGNED.replace("/ec2/", &format!("/{service}/")))
        .body(body::full(form.to_owned()))
        .unwrap();
    cloud.answer(request).await
}

#[test]
fn the_default_network_holds_together() {
    play(1, config(Instant), |cloud| async move {
        let vpcs = call(&cloud, "DescribeVpcs", "Filter.1.Name=is-default&Filter.1.Value.1=true").await;
        let vpc = vpcs.first("vpcId").unwrap();
        let in_vpc = format!("Filter.1.Name=vpc-id&Filter.1.Value.1={vpc}");
        let subnets = call(&cloud, "DescribeSubnets", &in_vpc).await;
        assert_eq!(subnets.all("subnetId").len(), 3);
        let mut zones = subnets.all("availabilityZone");
        zones.sort_unstable();
        assert_eq!(zones, ["us-east-1a", "us-east-1b", "us-east-1c"]);
        let group = call(&cloud, "DescribeSecurityGroups", &in_vpc).await;
        assert_eq!(group.first("groupName").as_deref(), Some("default"));
        let main = format!("{in_vpc}&Filter.2.Name=association.main&Filter.2.Value.1=true");
        let table = call(&cloud, "DescribeRouteTables", &main).await;
        let gateway = call(&cloud, "DescribeInternetGateways", "").await.first("internetGatewayId").unwrap();
        assert!(table.all("gatewayId").contains(&gateway), "{}", table.body);
        assert_eq!(call(&cloud, "DescribeNetworkAcls", &in_vpc).await.all("networkAclAssociationId").len(), 3);
        let options = call(&cloud, "DescribeDhcpOptions", "").await.first("dhcpOptionsId");
        assert_eq!(options, vpcs.first("dhcpOptionsId"));
        // An instance belongs to it.
        let node = cloud.instance("node-c");
        let reported = call(&cloud, "DescribeInstances", &format!("InstanceId.1={node}")).await;
        assert_eq!((reported.first("vpcId"), reported.first("groupId")), (Some(vpc.clone()), group.first("groupId")));
        let form = format!("SubnetId.1={}", reported.first("subnetId").unwrap());
        assert_eq!(
            call(&cloud, "DescribeSubnets", &form).await.first("availabilityZone").as_deref(),
            Some("us-east-1b")
        );
        let eni = reported.first("networkInterfaceId").unwrap();
        let interface = call(&cloud, "DescribeNetworkInterfaces", &format!("NetworkInterfaceId.1={eni}")).await;
        for tag in ["subnetId", "vpcId", "macAddress", "privateIpAddress", "groupId"] {
            assert_eq!(interface.first(tag), reported.first(tag), "{tag}");
        }
        let dns = call(&cloud, "DescribeVpcAttribute", &format!("VpcId={vpc}&Attribute=enableDnsSupport")).await;
        assert_eq!(dns.first("value").as_deref(), Some("true"));
    });
}

#[rstest]
#[case("DescribeVpcs", "VpcId", "vpc", "InvalidVpcID.NotFound", "InvalidVpcId.Malformed")]
#[case("DescribeSubnets", "SubnetId", "subnet", "InvalidSubnetID.NotFound", "InvalidSubnetId.Malformed")]
#[case("DescribeSecurityGroups", "GroupId", "sg", "InvalidGroup.NotFound", "InvalidGroupId.Malformed")]
#[case("DescribeRouteTables", "RouteTableId", "rtb", "InvalidRouteTableID.NotFound", "InvalidRouteTableId.Malformed")]
#[case(
    "DescribeNetworkInterfaces",
    "NetworkInterfaceId",
    "eni",
    "InvalidNetworkInterfaceID.NotFound",
    "InvalidNetworkInterfaceID.Malformed"
)]
#[case(
    "DescribeAddresses",
    "AllocationId",
    "eipalloc",
    "InvalidAllocationID.NotFound",
    "InvalidAllocationID.Malformed"
)]
#[case(
    "DescribeLaunchTemplates",
    "LaunchTemplateId",
    "lt",
    "InvalidLaunchTemplateId.NotFound",
    "InvalidLaunchTemplateId.Malformed"
)]
#[case("DescribeKeyPairs", "KeyPairId", "key", "InvalidKeyPair.NotFound", "InvalidKeyPair.Format")]
fn unknown_ids_are_not_found_and_bad_ones_malformed(
    #[case] action: &str,
    #[case] parameter: &str,
    #[case] prefix: &str,
    #[case] unknown: &str,
    #[case] malformed: &str,
) {
    play(1, config(Instant), |cloud| async move {
        let missing = format!("{prefix}-0123456789abcdef0");
        let answer = call(&cloud, action, &format!("{parameter}.1={missing}")).await;
        assert_eq!(answer.code(), unknown);
        assert!(answer.message().contains(&missing));
        assert_eq!(call(&cloud, action, &format!("{parameter}.1=banana")).await.code(), malformed);
        let colour = call(&cloud, action, "Filter.1.Name=colour&Filter.1.Value.1=red").await;
        assert_eq!(colour.message(), "The filter 'colour' is invalid");
    });
}

#[test]
fn lists_have_pages() {
    play(1, config(Instant), |cloud| async move {
        let (mut seen, mut token) = (Vec::new(), String::new());
        loop {
            let page = call(&cloud, "DescribeImages", &format!("MaxResults=5{token}")).await;
            seen.extend(page.all("imageId"));
            assert!(page.all("imageId").len() <= 5);
            match page.first("nextToken") {
                Some(next) => token = format!("&NextToken={next}"),
                None => break,
            }
        }
        let mut all = call(&cloud, "DescribeImages", "").await.all("imageId");
        assert!(all.len() > 10);
        all.sort_unstable();
        assert_eq!(seen, all);
    });
}

#[test]
fn images_are_found_by_name_owner_and_any_id() {
    play(1, config(Instant), |cloud| async move {
        let al2023 = "Owner.1=amazon&Filter.1.Name=name&Filter.1.Value.1=al2023-ami-2023*-x86_64\
                      &Filter.2.Name=architecture&Filter.2.Value.1=x86_64";
        let found = call(&cloud, "DescribeImages", al2023).await;
        assert_eq!(found.all("imageId").len(), 1, "{}", found.body);
        assert_eq!(found.first("imageOwnerAlias").as_deref(), Some("amazon"));
        let any = call(&cloud, "DescribeImages", "ImageId.1=ami-0fedcba9876543210").await;
        assert_eq!(any.first("imageState").as_deref(), Some("available"));
        assert_eq!(call(&cloud, "DescribeImages", "ImageId.1=ami-1").await.code(), "InvalidAMIID.Malformed");
        // `self` selects the images of instances.
        assert_eq!(call(&cloud, "DescribeImages", "Owner.1=self").await.all("imageId"), ["ami-0123456789abcdef0"]);
    });
}

#[test]
fn a_key_pair_is_there_once_an_instance_has_it() {
    play(1, config(Instant), |cloud| async move {
        assert_eq!(call(&cloud, "DescribeKeyPairs", "").await.all("keyName"), Vec::<String>::new());
        let run = "ImageId=ami-0123456789abcdef0&InstanceType=t3.micro&MinCount=1&MaxCount=1&KeyName=mine";
        let instance = call(&cloud, "RunInstances", run).await.first("instanceId").unwrap();
        let pair = call(&cloud, "DescribeKeyPairs", "KeyName.1=mine").await;
        let by_id =
            call(&cloud, "DescribeKeyPairs", &format!("KeyPairId.1={}", pair.first("keyPairId").unwrap())).await;
        assert_eq!(by_id.first("keyName").as_deref(), Some("mine"));
        assert_eq!(call(&cloud, "DescribeKeyPairs", "KeyName.1=yours").await.code(), "InvalidKeyPair.NotFound");
        // Its type is burstable, too.
        let credits = call(&cloud, "DescribeInstanceCreditSpecifications", &format!("InstanceId.1={instance}")).await;
        assert_eq!(credits.first("cpuCredits").as_deref(), Some("unlimited"));
        let node = cloud.instance("node-a");
        let none = call(&cloud, "DescribeInstanceCreditSpecifications", &format!("InstanceId.1={node}")).await;
        assert_eq!(none.code(), "IncorrectInstanceState");
    });
}

#[test]
fn offerings_and_attributes_of_the_account_are_listed() {
    play(1, config(Instant), |cloud| async move {
        let form = "LocationType=availability-zone&Filter.1.Name=instance-type&Filter.1.Value.1=m5.large";
        let mut places = call(&cloud, "DescribeInstanceTypeOfferings", form).await.all("location");
        places.sort_unstable();
        assert_eq!(places, ["us-east-1a", "us-east-1b", "us-east-1c"]);
        assert_eq!(
            call(&cloud, "DescribeInstanceTypeOfferings", "LocationType=moon").await.code(),
            "InvalidParameterValue"
        );
        let account = call(&cloud, "DescribeAccountAttributes", "AttributeName.1=default-vpc").await;
        assert_eq!(account.first("attributeValue"), call(&cloud, "DescribeVpcs", "").await.first("vpcId"));
        for action in ["DescribeAddresses", "DescribeLaunchTemplates", "DescribeNatGateways", "DescribeVpcEndpoints"] {
            let answer = call(&cloud, action, "").await;
            assert_eq!((answer.status, answer.body.contains("<item>")), (200, false), "{action}");
        }
    });
}

#[test]
fn the_network_has_tags() {
    play(1, config(Instant), |cloud| async move {
        let vpc = call(&cloud, "DescribeVpcs", "").await.first("vpcId").unwrap();
        let subnet = call(&cloud, "DescribeSubnets", "").await.first("subnetId").unwrap();
        let form =
            format!("ResourceId.1={vpc}&ResourceId.2={subnet}&Tag.1.Key=kubernetes.io/cluster/c&Tag.1.Value=owned");
        assert_eq!(call(&cloud, "CreateTags", &form).await.status, 200);
        let filter = "Filter.1.Name=tag-key&Filter.1.Value.1=kubernetes.io/cluster/*";
        assert_eq!(call(&cloud, "DescribeSubnets", filter).await.all("subnetId"), std::slice::from_ref(&subnet));
        let tags = call(&cloud, "DescribeTags", "Filter.1.Name=value&Filter.1.Value.1=owned").await;
        assert_eq!(
            (tags.all("resourceId"), tags.all("resourceType")),
            (vec![subnet.clone(), vpc.clone()], vec!["subnet".to_owned(), "vpc".to_owned()])
        );
        call(&cloud, "DeleteTags", &format!("ResourceId.1={subnet}&Tag.1.Key=kubernetes.io/cluster/c")).await;
        assert_eq!(call(&cloud, "DescribeSubnets", filter).await.all("subnetId"), Vec::<String>::new());
        let missing = call(&cloud, "CreateTags", "ResourceId.1=vpc-0123456789abcdef0&Tag.1.Key=k").await;
        assert_eq!(missing.code(), "InvalidVpcID.NotFound");
        assert_eq!(missing.message(), "The vpc ID 'vpc-0123456789abcdef0' does not exist");
        assert_eq!(call(&cloud, "CreateTags", "ResourceId.1=banana&Tag.1.Key=k").await.code(), "InvalidID");
    });
}

#[test]
fn the_credential_scope_selects_the_service() {
    play(1, config(Instant), |cloud| async move {
        let groups = beside(&cloud, "autoscaling", "Action=DescribeAutoScalingGroups&Version=2011-01-01").await;
        assert!(groups.body.contains("<DescribeAutoScalingGroupsResult><AutoScalingGroups></AutoScalingGroups>"));
        assert_eq!(groups.first("RequestId"), Some(groups.request_id.clone()));
        let configurations = "Action=DescribeLaunchConfigurations&Version=2011-01-01&MaxRecords=50";
        assert_eq!(beside(&cloud, "autoscaling", configurations).await.status, 200);
        let identity = beside(&cloud, "sts", "Action=GetCallerIdentity&Version=2011-06-15").await;
        assert_eq!(identity.first("Account").as_deref(), Some("000000000000"));
        assert_eq!(identity.first("Arn").as_deref(), Some("arn:aws:iam::000000000000:root"));
        // Each has its own actions, version and error format.
        let foreign = beside(&cloud, "sts", "Action=DescribeVolumes&Version=2011-06-15").await;
        assert!(
            foreign.body.contains("<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>")
        );
        assert_eq!((foreign.status, foreign.code().as_str()), (400, "InvalidAction"));
        assert_eq!(call(&cloud, "GetCallerIdentity", "").await.code(), "InvalidAction");
        let old = beside(&cloud, "sts", "Action=GetCallerIdentity&Version=2016-11-15").await;
        assert_eq!(old.code(), "NoSuchVersion");
    });
}
