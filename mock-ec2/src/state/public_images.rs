//! Finds images: public ones that clients look up by name, and any other well-formed id.

use super::State;
use super::error::Ec2Error;
use super::image::Image;
use super::image_requests::no_image;
use super::images::ImageDisk;
use super::instance::ROOT_DEVICE;
use super::listing::{Entry, Field, Listing, Named, group, list, text};
use super::resource_errors::ResourceErrors;
use substrate::ids as make_id;

/// Accounts that publish images.
const AMAZON: (&str, Option<&str>) = ("137112412989", Some("amazon"));
const CANONICAL: (&str, Option<&str>) = ("099720109477", None);
const DEBIAN: (&str, Option<&str>) = ("136693071363", None);
const MICROSOFT: (&str, Option<&str>) = ("801119661308", Some("amazon"));

/// Row of a public image: id (if clients' documentation names one), name, owner, root device, architecture, date.
type Row = (&'static str, &'static str, (&'static str, Option<&'static str>), &'static str, &'static str, &'static str);

const PUBLIC: &[Row] = &[
    ("", "al2023-ami-2023.6.20250115.0-kernel-6.1-arm64", AMAZON, ROOT_DEVICE, "arm64", "2025-01-16T22:36:35.000Z"),
    ("", "al2023-ami-2023.6.20250115.0-kernel-6.1-x86_64", AMAZON, ROOT_DEVICE, "x86_64", "2025-01-16T22:36:22.000Z"),
    (
        "ami-04681a1dbd79675a5",
        "amzn2-ami-hvm-2.0.20180810-x86_64-gp2",
        AMAZON,
        ROOT_DEVICE,
        "x86_64",
        "2018-08-11T02:30:11.000Z",
    ),
    ("", "amzn2-ami-hvm-2.0.20250116.0-arm64-gp2", AMAZON, ROOT_DEVICE, "arm64", "2025-01-16T21:43:05.000Z"),
    ("", "amzn2-ami-hvm-2.0.20250116.0-x86_64-gp2", AMAZON, ROOT_DEVICE, "x86_64", "2025-01-16T21:42:47.000Z"),
    (
        "ami-760aaa0f",
        "amzn-ami-hvm-2017.09.1.20171103-x86_64-gp2",
        AMAZON,
        ROOT_DEVICE,
        "x86_64",
        "2017-11-03T23:05:23.000Z",
    ),
    (
        "ami-1e749f67",
        "ubuntu/images/hvm-ssd/ubuntu-trusty-14.04-amd64-server-20170727",
        CANONICAL,
        "/dev/sda1",
        "x86_64",
        "2017-07-28T00:46:53.000Z",
    ),
    (
        "ami-785db401",
        "ubuntu/images/hvm-ssd/ubuntu-xenial-16.04-amd64-server-20170721",
        CANONICAL,
        "/dev/sda1",
        "x86_64",
        "2017-07-22T03:18:15.000Z",
    ),
    (
        "",
        "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-20250112",
        CANONICAL,
        "/dev/sda1",
        "x86_64",
        "2025-01-12T08:29:41.000Z",
    ),
    (
        "",
        "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-arm64-server-20250112",
        CANONICAL,
        "/dev/sda1",
        "arm64",
        "2025-01-12T08:30:02.000Z",
    ),
    (
        "",
        "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20250115",
        CANONICAL,
        "/dev/sda1",
        "x86_64",
        "2025-01-15T09:11:20.000Z",
    ),
    (
        "",
        "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-arm64-server-20250115",
        CANONICAL,
        "/dev/sda1",
        "arm64",
        "2025-01-15T09:11:48.000Z",
    ),
    ("", "debian-12-amd64-20250115-1993", DEBIAN, ROOT_DEVICE, "x86_64", "2025-01-15T03:10:55.000Z"),
    ("", "debian-12-arm64-20250115-1993", DEBIAN, ROOT_DEVICE, "arm64", "2025-01-15T03:11:12.000Z"),
    (
        "ami-12c6146b",
        "Windows_Server-2008-R2_SP1-English-64Bit-Base-2017.10.13",
        MICROSOFT,
        "/dev/sda1",
        "x86_64",
        "2017-10-13T19:43:57.000Z",
    ),
    (
        "",
        "Windows_Server-2022-English-Full-Base-2025.01.15",
        MICROSOFT,
        "/dev/sda1",
        "x86_64",
        "2025-01-15T08:37:26.000Z",
    ),
];

impl State {
    /// Returns the image `id`: of the account, public, or one of which only the id is known.
    ///
    /// # Errors
    /// `InvalidAMIID.Malformed`; `InvalidAMIID.NotFound` for a deregistered image.
    pub fn image(&self, id: &str) -> Result<Image, Ec2Error> {
        if let Some(resource_errors) = ResourceErrors::of("ami") {
            resource_errors.check(id)?;
        }
        if let Some(own) = self.account.images.get(id) {
            return Ok(own.image(id, &self.settings.account_id));
        }
        if self.account.gone_images.contains(id) {
            return Err(no_image(id));
        }
        let known = PUBLIC.iter().map(|row| self.public_image(row)).find(|image| image.id == id);
        Ok(known.unwrap_or_else(|| Image {
            id: id.to_owned(),
            name: format!("image-{}", id.trim_start_matches("ami-")),
            description: format!("image-{}", id.trim_start_matches("ami-")),
            owner: (self.settings.account_id.clone(), None),
            root_device: ROOT_DEVICE.to_owned(),
            architecture: None,
            windows: false,
            size_gib: 8,
            created: "2025-01-01T00:00:00.000Z".to_owned(),
            source_instance: None,
            disks: Vec::new(),
        }))
    }

    /// Returns the id of the root snapshot of `image`. It belongs to the image's owner, so it cannot be described here.
    pub(super) fn image_snapshot(&self, image: &str) -> String {
        make_id::ec2(&mut self.seed.child("image snapshot").child(image).rng(), "snap")
    }

    fn public_image(&self, row: &Row) -> Image {
        let (id, name, (account, alias), root_device, architecture, created) = *row;
        let made = || make_id::ec2(&mut self.seed.child("image").child(name).rng(), "ami");
        let windows = name.starts_with("Windows");
        Image {
            id: if id.is_empty() { made() } else { id.to_owned() },
            name: name.to_owned(),
            description: name.to_owned(),
            owner: (account.to_owned(), alias),
            root_device: root_device.to_owned(),
            architecture: Some(architecture.to_owned()),
            windows,
            size_gib: if windows { 30 } else { 8 },
            created: created.to_owned(),
            source_instance: None,
            disks: Vec::new(),
        }
    }

    /// Returns the candidates of `request`: the images it names, else the public ones and those of instances.
    pub(super) fn images(&self, request: &Listing) -> Result<Vec<Entry>, Ec2Error> {
        let mut all: Vec<Image> = match request.ids.is_empty() {
            true => {
                let own = self.account.images.iter().map(|(id, own)| own.image(id, &self.settings.account_id));
                PUBLIC.iter().map(|row| self.public_image(row)).chain(own).collect()
            }
            false => Vec::new(),
        };
        let run = self.instances.values().filter(|_| request.ids.is_empty()).map(|i| i.image_id.as_str());
        let run = run.filter(|id| !self.account.gone_images.contains(*id));
        for id in request.ids.iter().map(String::as_str).chain(run) {
            all.push(self.image(id)?);
        }
        let owned = |image: &Image, owner: &String| match owner.as_str() {
            "self" => image.owner.0 == self.settings.account_id,
            "amazon" => image.owner.1 == Some("amazon"),
            account => image.owner.0 == account,
        };
        let owners = request.all("Owner");
        all.retain(|image| owners.is_empty() || owners.iter().any(|owner| owned(image, owner)));
        // All images are public, except those of the account itself.
        let users = request.all("ExecutableBy");
        let public = |image: &Image| image.owner.0 != self.settings.account_id;
        all.retain(|image| {
            let may = |user: &String| match user.as_str() {
                "all" => public(image),
                "self" => !public(image),
                account => !public(image) && account == self.settings.account_id,
            };
            users.is_empty() || users.iter().any(may)
        });
        Ok(all.into_iter().map(|image| self.image_entry(&image, !public(&image))).collect())
    }

    fn image_entry(&self, image: &Image, own: bool) -> Entry {
        let (account, alias) = &image.owner;
        let location = format!("{}/{}", alias.unwrap_or(account), image.name);
        let architecture = image.architecture.as_deref().unwrap_or("x86_64");
        let disks = match image.disks.is_empty() {
            false => image.disks.clone(),
            true => vec![ImageDisk {
                device: image.root_device.clone(),
                snapshot: self.image_snapshot(&image.id).parse().ok(),
                size_gib: image.size_gib,
                volume_type: "gp3".to_owned(),
                iops: Some(3_000),
                throughput: Some(125),
                encrypted: false,
                delete_on_termination: true,
            }],
        };
        let state = self.image_state(image);
        let mut filter_fields = vec![
            ("architecture", architecture.to_owned()),
            ("creation-date", image.created.clone()),
            ("description", image.description.clone()),
            ("ena-support", "true".to_owned()),
            ("hypervisor", "xen".to_owned()),
            ("image-id", image.id.clone()),
            ("image-type", "machine".to_owned()),
            ("is-public", (!own).to_string()),
            ("manifest-location", location.clone()),
            ("name", image.name.clone()),
            ("owner-id", account.clone()),
            ("root-device-name", image.root_device.clone()),
            ("root-device-type", "ebs".to_owned()),
            ("state", state.to_owned()),
            ("virtualization-type", "hvm".to_owned()),
        ];
        for disk in &disks {
            filter_fields.push(("block-device-mapping.delete-on-termination", disk.delete_on_termination.to_string()));
            filter_fields.push(("block-device-mapping.device-name", disk.device.clone()));
            filter_fields.push(("block-device-mapping.encrypted", disk.encrypted.to_string()));
            filter_fields.extend(disk.snapshot.iter().map(|id| ("block-device-mapping.snapshot-id", id.to_string())));
            filter_fields.push(("block-device-mapping.volume-size", disk.size_gib.to_string()));
            filter_fields.push(("block-device-mapping.volume-type", disk.volume_type.clone()));
        }
        filter_fields.extend(alias.map(|alias| ("owner-alias", alias.to_owned())));
        filter_fields.extend(image.windows.then(|| ("platform", "windows".to_owned())));
        filter_fields.extend(image.source_instance.iter().map(|id| ("source-instance-id", id.to_string())));
        let mut fields: Vec<Named> = vec![
            text("imageId", &image.id),
            text("imageLocation", location),
            text("imageState", state),
            text("imageOwnerId", account),
            text("creationDate", &image.created),
            text("isPublic", !own),
            ("productCodes", Field::List(Vec::new())),
            text("architecture", architecture),
            text("imageType", "machine"),
        ];
        fields.extend(image.windows.then(|| text("platform", "windows")));
        fields.extend(alias.map(|alias| text("imageOwnerAlias", alias)));
        fields.extend([
            text("name", &image.name),
            text("description", &image.description),
            text("rootDeviceType", "ebs"),
            text("rootDeviceName", &image.root_device),
            list("blockDeviceMapping", disks.iter().map(|disk| disk_fields(disk))),
            text("virtualizationType", "hvm"),
            text("hypervisor", "xen"),
            text("enaSupport", true),
            text("platformDetails", if image.windows { "Windows" } else { "Linux/UNIX" }),
            text("usageOperation", if image.windows { "RunInstances:0002" } else { "RunInstances" }),
        ]);
        fields.extend(image.source_instance.as_ref().map(|id| text("sourceInstanceId", id)));
        Entry { id: image.id.clone(), filter_fields, tags: self.tags_of_network(&image.id), fields }
    }
}

fn disk_fields(disk: &ImageDisk) -> Vec<Named> {
    let mut fields = vec![text("deleteOnTermination", disk.delete_on_termination)];
    fields.extend(disk.snapshot.as_ref().map(|id| text("snapshotId", id)));
    fields.push(text("volumeSize", disk.size_gib));
    fields.push(text("volumeType", &disk.volume_type));
    fields.extend(disk.iops.map(|iops| text("iops", iops)));
    fields.extend(disk.throughput.map(|throughput| text("throughput", throughput)));
    fields.push(text("encrypted", disk.encrypted));
    vec![text("deviceName", &disk.device), group("ebs", fields)]
}
