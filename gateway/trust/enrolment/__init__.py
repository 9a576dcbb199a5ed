"""Enrolment: a new gateway gets its certificate with a token, and follows the fleet's trust."""
