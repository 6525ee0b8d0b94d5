//! Checks files on the disks of nodes.

use super::checked::Checked;
use super::steps::Steps;
use crate::scenario::acts::{File, NodeFile};
use crate::scenario::diagnostic::Mistake;
use crate::scenario::document as doc;

/// File in which kubelet saves the data of a volume.
const VOL_DATA: &str = "vol_data.json";
/// Word for the socket through which a driver registers.
const REGISTRATION_SOCKET: &str = "registration-socket";

impl Steps<'_> {
    pub(super) fn node_file(&self, file: doc::NodeFile) -> Checked<NodeFile> {
        let doc::NodeFile { node, remove, of } = file;
        let node = self.node(node)?;
        if let Some(of) = of {
            if remove.value != VOL_DATA {
                let help = format!("only `{VOL_DATA}` is of a volume");
                return Err(Mistake::new(of.place, "`of` does not go with this file", "here").help(help));
            }
            return Ok(NodeFile { node, file: File::VolData(self.volume(&of)?) });
        }
        let wrong = |message: &str, help: &str| Mistake::new(remove.place, message, "this file").help(help);
        let file = match remove.as_str() {
            VOL_DATA => return Err(wrong("every volume has a `vol_data.json` of its own", "add `of: pvc/NAME`")),
            REGISTRATION_SOCKET => File::RegistrationSocket,
            path if path.starts_with('/') => {
                return Err(wrong("a path begins at kubelet's directory", "leave `/var/lib/kubelet/` out"));
            }
            path if path.split('/').any(|part| part == "..") => {
                return Err(wrong("a path does not leave kubelet's directory", "write it without `..`"));
            }
            path if !path.contains('/')
                && substrate::words::nearest(path, [VOL_DATA, REGISTRATION_SOCKET]).is_some() =>
            {
                let near = substrate::words::nearest(path, [VOL_DATA, REGISTRATION_SOCKET]).unwrap_or_default();
                return Err(wrong("kubelet's directory has no such file", &format!("did you mean `{near}`?")));
            }
            "" => return Err(wrong("this names no file", "write a path below kubelet's directory")),
            path => File::Path(path.to_owned()),
        };
        Ok(NodeFile { node, file })
    }
}
