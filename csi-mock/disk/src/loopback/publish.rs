//! Publishing: a bind of the staged filesystem at a pod's path.

use std::path::Path;

use rustix::fs::Mode;

use super::ledger::occupied;
use super::mount::Options;
use super::{Inner, mount, text};
use crate::{Backend, DiskError, MountKind, Publish, Published};

impl Inner {
    pub fn publish(&self, publish: &Publish) -> Result<Published, DiskError> {
        if publish.block {
            return self.publish_block(publish);
        }
        let (staging, path) = (self.root.absolute(&publish.staging_path)?, self.root.absolute(&publish.path)?);
        let mounts = self.mounts()?;
        let Some(staged) = mounts.iter().rfind(|m| m.path == staging && m.volume == publish.volume) else {
            return Err(DiskError::NotStaged { volume: publish.volume.clone(), path: text(&staging) });
        };
        let readonly = publish.readonly || staged.readonly;
        match mounts.iter().rfind(|m| m.path == path) {
            Some(m) if m.volume == publish.volume => {
                return Ok(Published { readonly: m.readonly, already: true, options: None });
            }
            Some(m) => return Err(occupied(&path, format!("volume {} is mounted", m.volume))),
            None => {}
        }
        let options = Options::new(&publish.mount_flags, readonly)?;
        if !readonly {
            self.give(&staging, publish.group)?;
        }
        let place = self.root.place(&path)?;
        match rustix::fs::mkdirat(&place.parent, &place.name, Mode::from_raw_mode(0o750)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(DiskError::errno("mkdir", text(&path), error)),
        }
        let target = self.root.dir(&path)?;
        let bind = mount::copy(&self.root.dir(&staging)?, &staging)?;
        bind.attach(&target, &path)?;
        let done = bind.restrict(&options, &path).and_then(|()| self.seen(&publish.volume, &path));
        match done {
            Ok(mount) if mount.readonly == readonly => Ok(Published { readonly, already: false, options: None }),
            wrong => {
                mount::unmount(&place, &path, false)?;
                self.root.remove_dir(&path)?;
                wrong?;
                let reason = format!("the kernel did not make the mount readonly={readonly}");
                Err(DiskError::Unsupported { backend: Backend::Loop, reason })
            }
        }
    }

    pub fn unpublish(&self, volume: &str, path: &Path) -> Result<bool, DiskError> {
        let path = self.root.absolute(path)?;
        let mounted = match self.mounts()?.into_iter().rfind(|m| m.path == path) {
            Some(m) if m.volume != volume => return Err(occupied(&path, format!("volume {} is mounted", m.volume))),
            Some(m) if m.kind == MountKind::Staging => return Err(occupied(&path, "the volume is staged here")),
            Some(m) if m.kind == MountKind::Map => return Err(occupied(&path, "the node agent has the device here")),
            Some(m) if m.kind == MountKind::Block => return self.unpublish_block(&m),
            Some(m) => {
                mount::unmount(&self.root.place(&path)?, &path, false)?;
                if m.kind == MountKind::Share {
                    self.root.remove_file(&self.share_record(&path))?;
                }
                true
            }
            None => false,
        };
        self.remove_target(&path)?;
        Ok(mounted)
    }
}
