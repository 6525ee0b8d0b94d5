//! Protection of objects in use (`persistentvolumeclaim-protection-controller`,
//! `persistentvolume-protection-controller`, `volumeattributesclass-protection-controller`): finalizers that delay a
//! deletion.

pub mod attributes_class;
pub mod claim;
pub mod finalizer;
pub mod volume;
