// Package k8s is pgpilot on Kubernetes: Pods of a listener, routers and a classifier,
// lagpollers beside them, and what keeps both available and apart from the rest.
//
// Its tests build the manifests as kubectl apply -k does, decode them with the types of
// Kubernetes itself, refusing what these do not know, and check that what refers to
// each other fits.
package k8s
