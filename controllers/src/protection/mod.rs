//! Protection of objects in use (`persistentvolumeclaim-protection-controller`,
//! `persistentvolume-protection-controller`): finalizers that hold a deletion back.

pub mod claim;
pub mod finalizer;
pub mod volume;
