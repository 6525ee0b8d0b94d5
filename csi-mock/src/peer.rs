//! Services of the driver.

/// Returns the driver's service: its gRPC services with deadlines, and the admin endpoints.
pub(crate) fn peer(routes: tonic::service::Routes, admin: axum::Router) -> substrate::HttpService {
    csi_proto::keep_deadlines(crate::caller::with_caller(substrate::body::from_router(
        routes.into_axum_router().merge(admin),
    )))
}
