//! The storage control loops and the node agent (kubelet's volume side), over the wire APIs only.
