// Package compose is the whole stack in containers: compose.yaml with a primary and
// two replicas, own-servers.yaml with somebody's own servers instead.
//
// Its test, which the build tag compose asks for (make compose-test), needs a
// Docker engine. It brings the stack up under a name and ports of its own, uses it
// as a user would, restarts and scales its services under load, and leaves nothing
// behind but images.
package compose
