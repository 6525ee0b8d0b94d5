//! csi-mock.
