// All texts of the components that pages share, for those who translate them.
// Where a text is a function, it takes what stands in it.

export const C = {
  logIn: "Log in",
  user: "User",
  password: "Password",
  mayNotLook: "The policy lets nobody on this machine see this page.",
  theme: (now) => `Theme: ${now}`,
  changeTheme: (now, next) => `Theme: ${now}. Change to ${next}`,
  themes: { system: "system", light: "light", dark: "dark" },
  never: "never",
  ago: (span) => `${span} ago`,
  utc: (time) => `${time} UTC`,
};
