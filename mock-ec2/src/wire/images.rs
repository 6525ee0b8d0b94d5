//! Parameters of the actions on images.

use super::form::Form;
use super::launch::devices;
use super::tags::tag_specifications;
use crate::state::command::{Action, CreateImage, ImageRequest, RegisterImage};
use crate::state::error::Ec2Error;

/// Architectures of images.
const ARCHITECTURES: [&str; 4] = ["arm64", "arm64_mac", "x86_64", "x86_64_mac"];

pub(super) fn create_image(form: &mut Form) -> Result<Action, Ec2Error> {
    let mut tags = tag_specifications(form, &["image", "snapshot"])?;
    Ok(Action::Image(ImageRequest::Create(CreateImage {
        instance: super::fields::instance_id(&form.require("InstanceId")?)?,
        name: form.require("Name")?,
        description: form.take("Description").unwrap_or_default(),
        no_reboot: form.take_flag("NoReboot")?.unwrap_or(false),
        devices: devices(form)?,
        tags: tags.remove("image").unwrap_or_default(),
        snapshot_tags: tags.remove("snapshot").unwrap_or_default(),
    })))
}

pub(super) fn register_image(form: &mut Form) -> Result<Action, Ec2Error> {
    let mut tags = tag_specifications(form, &["image"])?;
    if form.take("ImageLocation").is_some() {
        let text = "The parameter ImageLocation cannot be used: images in S3 are not emulated.";
        return Err(Ec2Error::UnsupportedOperation(text.to_owned()));
    }
    // Only the values that every image here has.
    let usual = [("VirtualizationType", "hvm"), ("BootMode", "legacy-bios"), ("SriovNetSupport", "simple")];
    for (name, only) in usual.into_iter().chain([("EnaSupport", "true")]) {
        if let Some(value) = form.take(name).filter(|value| value != only) {
            let text = format!("The parameter {name}={value} cannot be used: it is not emulated. Use {only}.");
            return Err(Ec2Error::UnsupportedOperation(text));
        }
    }
    let architecture = form.take("Architecture").unwrap_or_else(|| "x86_64".to_owned());
    if !ARCHITECTURES.contains(&architecture.as_str()) {
        return Err(Ec2Error::InvalidParameterValue(format!(
            "Value ({architecture}) for parameter architecture is invalid. Use one of {}.",
            ARCHITECTURES.join(", ")
        )));
    }
    Ok(Action::Image(ImageRequest::Register(RegisterImage {
        name: form.require("Name")?,
        description: form.take("Description").unwrap_or_default(),
        architecture,
        root_device: form.take("RootDeviceName").unwrap_or_else(|| "/dev/sda1".to_owned()),
        devices: devices(form)?,
        tags: tags.remove("image").unwrap_or_default(),
    })))
}

pub(super) fn deregister_image(form: &mut Form) -> Result<Action, Ec2Error> {
    let snapshots = form.take_flag("DeleteAssociatedSnapshots")?.unwrap_or(false);
    Ok(Action::Image(ImageRequest::Deregister(form.require("ImageId")?, snapshots)))
}
